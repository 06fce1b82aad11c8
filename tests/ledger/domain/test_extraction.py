from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.extraction import (
    MAX_SENTENCE_LENGTH,
    VERSION,
    Extracted,
    Extractor,
    Message,
    PlainStatements,
    Span,
)

READER = PlainStatements()


def read(text: str, role: str = "user") -> list[tuple[str, str, Any]]:
    return [(one.category, one.key, one.value) for one in READER.extract([Message(text, role)])]


LIKES = "preference"
STATEMENTS = [
    # English
    ("I prefer tea", (LIKES, "favourite_drink", "tea")),
    ("I prefer coffee over tea.", (LIKES, "favourite_drink", "coffee")),
    ("I really prefer green tea to coffee", (LIKES, "favourite_drink", "green tea")),
    ("I prefer dark mode", (LIKES, "favourite_theme", "dark mode")),
    ("I prefer email rather than phone", (LIKES, "favourite_contact_channel", "email")),
    ("I prefer window seats", (LIKES, "prefers:window seats", True)),
    ("I prefer tea parties", (LIKES, "prefers:tea parties", True)),
    ("I prefer email newsletters over posters", (LIKES, "prefers:email newsletters", True)),
    ("I prefer to walk", (LIKES, "prefers:walk", True)),
    ("My favorite drink is coffee", (LIKES, "favourite_drink", "coffee")),
    ("User's plan is Starter", ("fact", "plan", "Starter")),
    ("The user’s subscription plan is now Growth", ("fact", "subscription_plan", "Growth")),
    ("My subscription plan: Growth", ("fact", "subscription_plan", "Growth")),
    ("my new plan = 'Growth'", ("fact", "plan", "Growth")),
    ("My name is Ada Lovelace.", ("fact", "name", "Ada Lovelace")),
    ("My doctor is Dr. Smith.", ("fact", "doctor", "Dr. Smith")),
    ("My site is example.com", ("fact", "site", "example.com")),
    ("My title is Dr.", ("fact", "title", "Dr")),
    ("My doctor is Dr. Who! ", ("fact", "doctor", "Dr. Who")),
    ('My monitor is 27"', ("fact", "monitor", '27"')),
    ("My favourite old red racing bike is Trek", (LIKES, "favourite_old_red_racing_bike", "Trek")),
    ("My plan is “Growth”", ("fact", "plan", "Growth")),
    ("my birthday is 1990-02-03", ("fact", "birthday", "1990-02-03")),
    ("My hobbies are chess and go", ("fact", "hobbies", "chess and go")),
    ("I live in Berlin now.", ("fact", "location", "Berlin")),
    ("I currently live in New York", ("fact", "location", "New York")),
    ("The user lives in Oslo", ("fact", "location", "Oslo")),
    ("I'm based in Porto", ("fact", "location", "Porto")),
    ("I moved to Lisbon", ("fact", "location", "Lisbon")),
    ("I've recently moved to Lisbon", ("fact", "location", "Lisbon")),
    ("I work as a nurse", ("fact", "occupation", "nurse")),
    ("The user works at Acme", ("fact", "employer", "Acme")),
    ("I'm called Max", ("fact", "name", "Max")),
    ("Call me Ishmael", ("fact", "name", "Ishmael")),
    ("I am 34 years old", ("fact", "age", "34")),
    ("I like tea", (LIKES, "likes:tea", True)),
    ("I LOVE  the Sea!", (LIKES, "likes:sea", True)),
    ("I  really\tlike  tea", (LIKES, "likes:tea", True)),
    ("I really enjoy chess very much", (LIKES, "likes:chess", True)),
    ("The user likes tea", (LIKES, "likes:tea", True)),
    ("I don't like tea", (LIKES, "likes:tea", False)),
    ("I don’t really like tea at all", (LIKES, "likes:tea", False)),
    ("I do not enjoy tea", (LIKES, "likes:tea", False)),
    ("I no longer like tea", (LIKES, "likes:tea", False)),
    ("The user doesn't like tea", (LIKES, "likes:tea", False)),
    ("The user no longer likes tea", (LIKES, "likes:tea", False)),
    ("I hate mondays", (LIKES, "likes:mondays", False)),
    ("I can't stand mondays", (LIKES, "likes:mondays", False)),
    ("The user dislikes mondays", (LIKES, "likes:mondays", False)),
    ("I speak German", ("fact", "speaks:german", True)),
    ("I don't speak German", ("fact", "speaks:german", False)),
    ("I use vim", ("fact", "uses:vim", True)),
    ("The user no longer uses vim", ("fact", "uses:vim", False)),
    ("I'm allergic to nuts", ("fact", "allergic_to:nuts", True)),
    ("I am not allergic to nuts", ("fact", "allergic_to:nuts", False)),
    ("Actually, I prefer tea", (LIKES, "favourite_drink", "tea")),
    ("Please remember that I prefer tea", (LIKES, "favourite_drink", "tea")),
    ("- I prefer tea", (LIKES, "favourite_drink", "tea")),
    ("By the way, yes, I like tea", (LIKES, "likes:tea", True)),
    # German
    ("Mein aktuelles Abo ist Growth.", ("fact", "abo", "Growth")),
    ("Meine Lieblingsfarbe ist Blau", ("fact", "lieblingsfarbe", "Blau")),
    ("Der Tarif des Nutzers ist Growth", ("fact", "tarif", "Growth")),
    ("Ich mag Kaffee", (LIKES, "likes:kaffee", True)),
    ("Ich liebe den Kaffee sehr", (LIKES, "likes:kaffee", True)),
    ("Ich mag keinen Kaffee", (LIKES, "likes:kaffee", False)),
    ("Ich mag Kaffee nicht mehr", (LIKES, "likes:kaffee", False)),
    ("Ich hasse Montage", (LIKES, "likes:montage", False)),
    ("Ich trinke gerne Tee", (LIKES, "likes:tee", True)),
    ("Ich trinke nicht gern Tee", (LIKES, "likes:tee", False)),
    ("Ich esse ungern Fisch", (LIKES, "likes:fisch", False)),
    ("Ich trinke lieber Tee als Kaffee", (LIKES, "favourite_drink", "Tee")),
    ("Ich bevorzuge Tee gegenüber Kaffee", (LIKES, "favourite_drink", "Tee")),
    ("Ich wohne jetzt in Berlin", ("fact", "location", "Berlin")),
    ("Ich bin nach Köln umgezogen", ("fact", "location", "Köln")),
    ("Ich arbeite als Arzt", ("fact", "occupation", "Arzt")),
    ("Ich arbeite bei Acme", ("fact", "employer", "Acme")),
    ("Ich heiße Ada", ("fact", "name", "Ada")),
    ("Übrigens, ich mag Tee", (LIKES, "likes:tee", True)),
    # French
    ("J'aime le thé", (LIKES, "likes:thé", True)),
    ("J’adore vraiment la mer", (LIKES, "likes:mer", True)),
    ("Je n’aime pas le café", (LIKES, "likes:café", False)),
    ("Je n'aime plus le café", (LIKES, "likes:café", False)),
    ("Je déteste le lundi", (LIKES, "likes:lundi", False)),
    ("Je préfère le thé au café", (LIKES, "favourite_drink", "thé")),
    ("Je préfère le thé vert", (LIKES, "favourite_drink", "thé vert")),
    ("J'habite à Paris", ("fact", "location", "Paris")),
    ("Je vis maintenant en Belgique", ("fact", "location", "Belgique")),
    ("Je travaille chez Acme", ("fact", "employer", "Acme")),
    ("Je travaille comme médecin", ("fact", "occupation", "médecin")),
    ("Je m'appelle Ada", ("fact", "name", "Ada")),
    ("Mon abonnement actuel est Growth", ("fact", "abonnement", "Growth")),
    ("L'abonnement de l'utilisateur est Growth", ("fact", "abonnement", "Growth")),
    ("En fait, j'aime le thé", (LIKES, "likes:thé", True)),
    # Spanish
    ("Me gusta el té", (LIKES, "likes:té", True)),
    ("Me encantan los gatos", (LIKES, "likes:gatos", True)),
    ("No me gusta el café", (LIKES, "likes:café", False)),
    ("Ya no me gusta el café", (LIKES, "likes:café", False)),
    ("Odio los lunes", (LIKES, "likes:lunes", False)),
    ("Prefiero el té al café", (LIKES, "favourite_drink", "té")),
    ("Vivo en Madrid", ("fact", "location", "Madrid")),
    ("Trabajo como médica", ("fact", "occupation", "médica")),
    ("Trabajo para Acme", ("fact", "employer", "Acme")),
    ("Me llamo Ada", ("fact", "name", "Ada")),
    ("Mi plan actual es Growth", ("fact", "plan", "Growth")),
    ("El plan del usuario es Growth", ("fact", "plan", "Growth")),
    ("Por cierto, me gusta el té", (LIKES, "likes:té", True)),
    # Chinese
    ("我喜欢咖啡", (LIKES, "likes:咖啡", True)),
    ("我非常喜歡咖啡。", (LIKES, "likes:咖啡", True)),
    ("我爱北京", (LIKES, "likes:北京", True)),
    ("我不喜欢咖啡", (LIKES, "likes:咖啡", False)),
    ("不喜欢咖啡", (LIKES, "likes:咖啡", False)),
    ("喜欢咖啡", (LIKES, "likes:咖啡", True)),
    ("不，我喜欢咖啡", (LIKES, "likes:咖啡", True)),
    ("我现在不喜欢咖啡了", (LIKES, "likes:咖啡", False)),
    ("我讨厌咖啡", (LIKES, "likes:咖啡", False)),
    ("用户不喜欢咖啡", (LIKES, "likes:咖啡", False)),
    ("我更喜欢茶", (LIKES, "favourite_drink", "茶")),
    ("我更喜欢茶而不是咖啡", (LIKES, "favourite_drink", "茶")),
    ("我住在北京", ("fact", "location", "北京")),
    ("我在谷歌工作", ("fact", "employer", "谷歌")),
    ("我叫小明", ("fact", "name", "小明")),
    ("我的套餐是Growth", ("fact", "套餐", "Growth")),
    ("我当前的套餐是Growth", ("fact", "套餐", "Growth")),
    ("用户的套餐是Growth", ("fact", "套餐", "Growth")),
    # Japanese
    ("私は紅茶が好きです", (LIKES, "likes:紅茶", True)),
    ("紅茶が大好き", (LIKES, "likes:紅茶", True)),
    ("コーヒーは好きではありません", (LIKES, "likes:コーヒー", False)),
    ("私はコーヒーが嫌いです。", (LIKES, "likes:コーヒー", False)),
    ("コーヒーがあまり好きじゃない", (LIKES, "likes:コーヒー", False)),
    ("コーヒーより紅茶の方が好きです", (LIKES, "favourite_drink", "紅茶")),
    ("東京に住んでいます", ("fact", "location", "東京")),
    ("私はアクメで働いています", ("fact", "employer", "アクメ")),
    ("私はアダといいます", ("fact", "name", "アダ")),
    ("私の現在のプランはGrowthです", ("fact", "プラン", "Growth")),
    ("ユーザーのプランはGrowthです", ("fact", "プラン", "Growth")),
]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_plain_statements(text: str, expected: tuple[str, str, Any]) -> None:
    assert read(text) == [expected]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_a_text_in_nfd_says_the_same(text: str, expected: tuple[str, str, Any]) -> None:
    (found,) = READER.extract([Message(unicodedata.normalize("NFD", f"{text} "))])
    assert (found.category, found.key) == expected[:2]
    assert unicodedata.normalize("NFC", str(found.value)) == str(expected[2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n\n",
        "Hello there!",
        "What a nice day.",
        # Denials of an attribute name no value.
        "My plan is not Growth",
        "My plan isn't Growth",
        "My plan is no longer Growth",
        "Mein Tarif ist nicht Growth",
        "Mon abonnement n'est pas Growth",
        "Mi plan no es Growth",
        "我的套餐不是Growth",
        "私のプランはGrowthではありません",
        "I don't live in Berlin",
        "Ich wohne nicht in Berlin",
        "No vivo en Madrid",
        "我不住在北京",
        "東京に住んでいません",
        # A denied dislike is no like.
        "I don't hate tea",
        "我不讨厌咖啡",
        "コーヒーは嫌いではない",
        # Questions, conditions, wishes, hedges, the past, others' words.
        "Do I like tea?",
        "I like tea?",
        "Is my plan Growth?",
        "我喜欢咖啡吗",
        "コーヒーが好きですか。",
        "If my plan is Growth, cancel it",
        "I like tea if it is hot",
        "I'd like a tea",
        "I would like tea",
        "I think my plan is Growth",
        "I used to live in Paris",
        "I liked tea",
        'He said "I like tea"',
        '"I like tea"',
        "She likes tea",
        "Her plan is Growth",
        # Nothing that could be compared.
        "I like it",
        "I love you",
        "My plan is unknown",
        "My point is that we should go",
        "My guess is Growth",
        "My plan is to travel",
        "The plan is Growth",
        "我喜欢你",
        "私はそれが好きです",
        "爱丽丝是我的朋友",
        "私の猫は魚が好きです",
        "I work because I must",
        "my is Growth",
        'My plan is ""',
        "My plan is '",
        "My very long and winding key here is x",
        "I like " + "x" * 300,
    ],
)
def test_nothing_to_extract_is_an_answer(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "role", "confidence"),
    [
        ("Your current subscription plan is Growth", "assistant", 0.9),
        ("Your current subscription plan is Growth", "system", 0.9),
        ("Your current subscription plan is Growth", "user", 0.5),
        ("Your current subscription plan is Growth", "Human", 0.5),
        ("My subscription plan is Growth", "user", 0.9),
        ("The user's subscription plan is Growth", "assistant", 0.9),
        ("Ihr aktuelles Abo ist Growth", "assistant", 0.9),
        ("Votre abonnement est Growth", "assistant", 0.9),
        ("Su plan es Growth", "assistant", 0.9),
        ("您的套餐是Growth", "assistant", 0.9),
        ("您当前的套餐是Growth", "user", 0.5),
        ("お客様のプランはGrowthです", "assistant", 0.9),
        ("You live in Berlin", "assistant", 0.9),
        ("You like tea", "assistant", 0.9),
    ],
)
def test_who_speaks_decides_whom_it_is_about(text: str, role: str, confidence: float) -> None:
    (found,) = READER.extract([Message(text, role)])
    assert found.confidence == confidence
    assert found.value in ("Growth", "Berlin", True)


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("My name is Robin", "assistant"),
        ("I like tea", "assistant"),
        ("I live in Berlin", "tool"),
        ("Ich mag Tee", "assistant"),
        ("Mein Name ist Robin", "assistant"),
        ("J'aime le thé", "assistant"),
        ("Me gusta el té", "assistant"),
        ("我喜欢咖啡", "assistant"),
        ("私はアダといいます", "assistant"),
        ("Your name is Max", "user"),
        ("Your answers are short", "user"),
        ("You like tea", "user"),
        ("You live in Berlin", "user"),
    ],
)
def test_what_is_said_about_the_assistant_is_not_about_the_user(text: str, role: str) -> None:
    assert read(text, role) == []


def test_a_claim_tells_where_it_was_found() -> None:
    texts = ["Hi! I prefer tea. My plan is Growth, and I live in Köln.", "Actually, my plan is Starter"]
    found = READER.extract([Message(text) for text in texts])
    assert found == (
        Extracted("preference", "favourite_drink", "tea", "I prefer tea", VERSION, 0.9, Span(0, 4, 16), "en", 1),
        Extracted("fact", "plan", "Growth", "My plan is Growth", VERSION, 0.9, Span(0, 18, 35), "en", 2),
        Extracted("fact", "location", "Köln", "I live in Köln", VERSION, 0.9, Span(0, 41, 55), "en", 3),
        Extracted("fact", "plan", "Starter", "Actually, my plan is Starter", VERSION, 0.9, Span(1, 0, 28), "en", 4),
    )
    for one in found:
        assert one.span is not None
        assert texts[one.span.message][one.span.start : one.span.end] == one.content


def test_places_are_those_of_the_text_as_it_came() -> None:
    text = "Café? " + "J'aime le thé."
    for given_text in (unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)):
        (found,) = READER.extract([Message(given_text)])
        assert found.span is not None
        there = given_text[found.span.start : found.span.end]
        assert unicodedata.normalize("NFC", there) == "J'aime le thé"


def test_a_place_behind_a_line_break_in_a_decomposed_text() -> None:
    text = unicodedata.normalize("NFD", "\nJ'aime le café")
    (found,) = READER.extract([Message(text)])
    assert found.span == Span(0, 1, len(text))


def test_a_place_at_the_beginning_of_a_decomposed_text() -> None:
    text = unicodedata.normalize("NFD", "J'aime le café")
    (found,) = READER.extract([Message(text)])
    assert found.span == Span(0, 0, len(text))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I prefer quiet rooms", "en"),
        ("Ich mag Tee", "de"),
        ("J'habite à Paris", "fr"),
        ("Mi plan es Growth", "es"),
        ("我喜欢咖啡", "zh"),
        ("紅茶が好き", "ja"),
    ],
)
def test_a_claim_tells_in_which_language_it_was_found(text: str, language: str) -> None:
    assert [found.language for found in READER.extract([Message(text)])] == [language]


def test_one_sentence_can_make_two_statements() -> None:
    assert read("I like tea, but I don't like coffee.") == [
        ("preference", "likes:tea", True),
        ("preference", "likes:coffee", False),
    ]
    assert read("Ich mag Tee und ich wohne in Berlin") == [
        ("preference", "likes:tee", True),
        ("fact", "location", "Berlin"),
    ]
    assert read("我喜欢茶，但是我不喜欢咖啡") == [("preference", "likes:茶", True), ("preference", "likes:咖啡", False)]
    assert read("I like salt and pepper") == [("preference", "likes:salt and pepper", True)]


def test_lines_and_sentences_are_told_apart() -> None:
    assert [
        key for _, key, _ in read("* I like tea\n* I like chess; my plan is Growth! 我喜欢咖啡。Is my plan Pro?")
    ] == [
        "likes:tea",
        "likes:chess",
        "plan",
        "likes:咖啡",
    ]
    assert read("My version is 3.5.1. I like tea") == [("fact", "version", "3.5.1"), ("preference", "likes:tea", True)]


def test_long_sentences_are_passed_over() -> None:
    value = "a " * ((MAX_SENTENCE_LENGTH - 11) // 2)
    assert len(f"My plan is {value}".strip()) <= MAX_SENTENCE_LENGTH
    assert read("My plan is " + "b" * 256) == [("fact", "plan", "b" * 256)]
    assert read("My plan is " + "b" * 257) == []
    for length, is_read in ((MAX_SENTENCE_LENGTH, True), (MAX_SENTENCE_LENGTH + 1, False)):
        said = "so, " * ((length - 17) // 4) + "my plan is " + "G" * (6 + (length - 17) % 4)
        assert len(said) == length
        assert bool(read(said)) is is_read
    assert read("Hello there. " * 60 + "I like tea.") == [("preference", "likes:tea", True)]


def test_the_reader_is_an_extractor_with_a_version() -> None:
    port: Extractor = READER
    assert port.version == VERSION == "statements-1"
    assert port.extract([]) == ()


@given(st.text(max_size=200), st.sampled_from(["user", "assistant", "", "x"]))
def test_any_text_is_read(text: str, role: str) -> None:
    for found in READER.extract([Message(text, role)]):
        assert found.span is not None
        assert 0 <= found.span.start < found.span.end <= len(text)
