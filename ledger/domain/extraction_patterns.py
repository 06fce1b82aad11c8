"""The sentences that the built-in extractor knows, language by language.

A pattern has to match a whole statement, from its first word on, which is what keeps quotations, questions and
subordinate clauses out. Patterns are tried in order: denials come before what they deny.

Patterns are regular expressions with words of their own: a space is any space; `{key}`, `{value}` and `{object}` are
what is read (of an attribute its name and value, of an opinion what it is about); any other word in braces is replaced
by what the language or the speaker has for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType


class Speaker(StrEnum):
    """Whom a sentence is about, as it names them: I, you, or the user."""

    FIRST = "first"
    SECOND = "second"
    THIRD = "third"


class Shape(StrEnum):
    """`attribute`: the sentence names the key. `fact`: the pattern does. `opinion`: the key is a family and the object
    that is spoken of. `preference`: an object that is put before others of its kind."""

    ATTRIBUTE = "attribute"
    FACT = "fact"
    OPINION = "opinion"
    PREFERENCE = "preference"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A pattern as it is written down. `key` is that of a fact or the family of an opinion."""

    text: str
    shape: Shape
    key: str = ""
    truth: bool = True
    speakers: frozenset[Speaker] = frozenset(Speaker)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sentence for one speaker, ready to match."""

    sentence: Sentence
    speaker: Speaker
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Language:
    """`hint` is in every sentence that the patterns know. `opening` may stand before a statement, `padding` before or
    behind a key, `article` before a thing and `closing` behind a value, all without meaning anything here. A value that
    `says_nothing` matches is none: a denial, a condition, a pronoun. `no_key` are words that no key contains.
    `noun_first`: what describes a noun follows it."""

    code: str
    hint: re.Pattern[str]
    opening: re.Pattern[str]
    padding: re.Pattern[str]
    article: re.Pattern[str]
    closing: re.Pattern[str]
    says_nothing: re.Pattern[str]
    no_key: frozenset[str]
    words: Mapping[str, str]
    speakers: Mapping[Speaker, Mapping[str, str]]
    sentences: tuple[Sentence, ...]
    noun_first: bool = False
    patterns: tuple[Pattern, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(self._patterns()))

    def _patterns(self) -> Iterator[Pattern]:
        for sentence in self.sentences:
            for speaker, forms in self.speakers.items():
                if speaker in sentence.speakers:
                    yield Pattern(sentence, speaker, _regex(sentence.text, {**_READ, **self.words, **forms}))


_READ = {
    "key": r"(?P<key>[^,;:!?=\"“”]{1,60}?)",
    "value": "(?P<value>.+)",
    "value?": "(?P<value>.+?)",
    "object": "(?P<object>.+?)",
}
_WORD = re.compile(r"\{([a-z?]+)\}")


def _regex(text: str, words: Mapping[str, str]) -> re.Pattern[str]:
    # Twice, because words are made of words.
    for _ in range(2):
        text = _WORD.sub(lambda found: words[found[1]], text)
    return re.compile(text.replace(" ", r"\s+"), re.IGNORECASE)


def _plain(text: str) -> re.Pattern[str]:
    return _regex(text, {"pause": r"(?:[,:!–—-]\s*|\s+)"})


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _likes(text: str, family: str = "likes") -> Sentence:
    return Sentence(text, Shape.OPINION, family)


def _dislikes(text: str, family: str = "likes") -> Sentence:
    return Sentence(text, Shape.OPINION, family, truth=False)


def _prefers(text: str) -> Sentence:
    return Sentence(text, Shape.PREFERENCE)


def _is(key: str, text: str) -> Sentence:
    return Sentence(text, Shape.FACT, key)


def _has(text: str) -> Sentence:
    return Sentence(text, Shape.ATTRIBUTE)


def _only(speaker: Speaker, *sentences: Sentence) -> tuple[Sentence, ...]:
    return tuple(replace(sentence, speakers=frozenset((speaker,))) for sentence in sentences)


FIRST, SECOND, THIRD = Speaker.FIRST, Speaker.SECOND, Speaker.THIRD

ENGLISH = Language(
    code="en",
    hint=_plain(r"\b(?:i|my|me|you|your|user|customer)\b"),
    opening=_plain(
        r"(?:(?:actually|well|yes|yeah|no|oh|hi|hello|hey|ok|okay|so|also|and|but|btw|fyi|by the way|for the record"
        r"|(?:please )?(?:note|remember|know)(?: that)?){pause})+"
    ),
    padding=_plain("^(?:(?:current|new|latest|present|own|actual) )+"),
    article=_plain("(?:the|a|an|to) "),
    closing=_plain("(?: (?:now|currently|anymore|any more|at all|very much|a lot|too|as well|right now|these days))+$"),
    says_nothing=_plain(
        "(?:not|no longer|never|that|to|because|when|if|how|what|why|where|like|about|going|getting|being|your"
        r"|supposed)\b.*|(?:it|this|these|those|them|him|her|you|me|us|everything|nothing|something|anything|so|one"
        r"|none|unknown)|.*\b(?:if|unless|whether|than|but|except|would|could)\b.*"
    ),
    no_key=_set(
        "that what which who is are was were not i you it isn't aren't no guess question point problem concern thought "
        "opinion understanding bad fault pleasure answer"
    ),
    words={
        "really": "(?:(?:really|truly|absolutely|also|still|just|now|currently|always|usually|generally|do) )*",
        "now": "(?:(?:now|currently|presently|still) )*",
        "likes": "(?:like{s}|love{s}|enjoy{s}|adore{s})",
        "hates": "(?:hate{s}|dislike{s}|detest{s}|loathe{s}|can't stand|cannot stand)",
    },
    speakers={
        FIRST: {"who": "i", "s": "", "not": "(?:do not|don't|dont)", "am": "(?: am|'m)", "my": "my"},
        SECOND: {"who": "you", "s": "", "not": "(?:do not|don't|dont)", "am": "(?: are|'re)", "my": "your"},
        THIRD: {
            "who": "(?:the )?(?:user|customer)",
            "s": "s",
            "not": "(?:does not|doesn't)",
            "am": "(?: is|'s)",
            "my": "(?:the )?(?:user|customer)'s",
        },
    },
    sentences=(
        _dislikes("{who} (?:really )?(?:{not} (?:really )?(?:like|love|enjoy)|no longer {likes}) {object}"),
        _dislikes("{who} {really}{hates} {object}"),
        _prefers("{who} {really}prefer{s} {object}(?: (?:over|to|rather than|instead of) .+)?"),
        _likes("{who} {really}{likes} {object}"),
        _dislikes("{who} (?:{not} speak|no longer speak{s}) {object}", "speaks"),
        _likes("{who} {really}speak{s} {object}", "speaks"),
        _dislikes("{who} (?:{not} use|no longer use{s}) {object}", "uses"),
        _likes("{who} {really}use{s} {object}", "uses"),
        _dislikes("{who}{am} not allergic to {object}", "allergic_to"),
        _likes("{who}{am} {now}allergic to {object}", "allergic_to"),
        _is("location", "{who} {really}(?:live{s}|reside{s}) (?:in|at) {value}"),
        _is("location", "{who}{am} {now}based in {value}"),
        _is("location", "{who}(?: have| has|'ve)? {really}(?:recently )?moved to {value}"),
        _is("occupation", "{who} {really}work{s} as (?:an? |the )?{value}"),
        _is("employer", "{who} {really}work{s} (?:at|for) {value}"),
        _is("name", "{who}{am} called {value}"),
        *_only(FIRST, _is("name", "call me {value}")),
        _is("age", r"{who}{am} {now}(?P<value>[0-9]{1,3}) years? old"),
        _has(r"{my} {key}(?: (?:is|are) {now}|\s*[:=]\s*){value}"),
    ),
)

GERMAN = Language(
    code="de",
    hint=_plain(r"\b(?:ich|mein\w*|dein\w*|ihr\w*|(?:be)?nutzer\w*|kunden|kundin)\b"),
    opening=_plain(
        "(?:(?:ja|nein|also|übrigens|hallo|hi|ok|okay|eigentlich|und|aber|bitte|merk dir|merke dir|denk daran)"
        "{pause}(?:dass )?)+"
    ),
    padding=_plain("^(?:(?:aktuell|derzeitig|jetzig|neu|eigen)(?:e|er|es|en)? )+"),
    article=_plain("(?:der|die|das|den|dem|ein|eine|einen|einem) "),
    closing=_plain("(?: (?:jetzt|derzeit|mehr|sehr|auch))+$"),
    says_nothing=_plain(
        r"(?:nicht|kein\w*|nie|niemals|dass|weil|wenn|wie|was|warum|zu|unbekannt)\b.*"
        r"|(?:es|das|dies|dich|sie|ihn|mich|alles|nichts|so)"
        r"|.*\b(?:nicht|kein\w*|wenn|falls|ob|als|aber|würde)\b.*"
    ),
    no_key=_set("dass was ist sind nicht ich du frage problem meinung vermutung antwort"),
    words={
        "very": "(?:(?:wirklich|sehr|total|echt|auch|immer noch|nach wie vor) )*",
        "now": "(?:(?:jetzt|derzeit|aktuell|zurzeit|momentan|inzwischen|nun) )*",
        "like": "ich (?:mag|liebe)",
        "not": "(?: (?:gar|überhaupt|leider|eigentlich))? nicht(?: (?:mehr|so|besonders|sehr|gern|gerne))*",
        "is": "(?:ist|sind|lautet|heißt)",
        "users": "(?:des (?:be)?nutzers|der (?:be)?nutzerin|des kunden|der kundin)",
    },
    speakers={FIRST: {"my": "mein(?:e|er|es)?"}, SECOND: {"my": "(?:dein|ihr)(?:e|er|es)?"}, THIRD: {"my": ""}},
    sentences=(
        *_only(
            FIRST,
            _dislikes("{like} {very}kein(?:e|en|er|es)? {object}"),
            _dislikes("{like} {very}{object}{not}"),
            _dislikes("ich (?:trinke|esse|mache) (?:nicht (?:so )?gerne?|ungern) {object}"),
            _dislikes("ich (?:hasse|verabscheue) {very}{object}"),
            _prefers("ich bevorzuge {object}(?: (?:gegenüber|vor|statt) .+)?"),
            _prefers("ich (?:trinke|esse|nehme|mag) lieber {object}(?: (?:als|statt) .+)?"),
            _likes("ich (?:trinke|esse|mache) {very}gerne? {object}"),
            _likes("{like} {very}{object}(?: (?:sehr|gern|gerne))*"),
            _is("location", "ich (?:wohne|lebe) {now}(?:in|im|auf) {value}"),
            _is("location", "ich bin {now}nach {value?} (?:um)?gezogen"),
            _is("occupation", "ich arbeite {now}als (?:eine? )?{value}"),
            _is("employer", "ich arbeite {now}(?:bei|für) {value}"),
            _is("name", "ich hei(?:ß|ss)e {value}"),
            _has("{my} {key} {is} {now}{value}"),
        ),
        *_only(SECOND, _has("{my} {key} {is} {now}{value}")),
        *_only(THIRD, _has("(?:der|die|das) {key} {users} {is} {now}{value}")),
    ),
)

FRENCH = Language(
    code="fr",
    noun_first=True,
    hint=_plain(r"\b(?:je|j'|mon|ma|mes|votre|vos|ton|ta|tes|utilisat\w+|client\w*)"),
    opening=_plain(
        "(?:(?:oui|non|alors|bonjour|salut|en fait|d'accord|ok|et|mais|au fait|n'oubliez pas que|note que|notez que)"
        "{pause})+"
    ),
    padding=_plain("^(?:(?:nouveau|nouvelle|nouvel) )+|(?: actuel(?:le)?s?)+$"),
    article=_plain("(?:(?:le|la|les|un|une|des|du|de) |(?:de l|l|d)')"),
    closing=_plain("(?: (?:maintenant|actuellement|beaucoup|aussi|désormais))+$"),
    says_nothing=_plain(
        r"(?:pas|plus|jamais|que|qu|parce|quand|si|comment|inconnu\w*)\b.*"
        r"|(?:ça|cela|ceci|lui|elle|toi|moi|tout|rien)|.*\b(?:si|quand|sauf|mais|pas)\b.*"
    ),
    no_key=_set("que qui est sont pas je tu ne n'est question problème avis réponse"),
    words={
        "very": "(?:(?:bien|beaucoup|vraiment|aussi|toujours|énormément) )*",
        "now": "(?:(?:maintenant|actuellement|désormais|toujours) )*",
        "users": "(?:de l'utilisat(?:eur|rice)|du client|de la cliente)",
    },
    speakers={FIRST: {"my": "(?:mon|ma|mes)"}, SECOND: {"my": "(?:votre|vos|ton|ta|tes)"}, THIRD: {"my": ""}},
    sentences=(
        *_only(
            FIRST,
            _dislikes("je n'aime (?:pas|plus)(?: (?:du tout|vraiment|trop))? {object}(?: du tout)?"),
            _dislikes("je (?:déteste|hais) {very}{object}"),
            _prefers("je préfère {object}(?: (?:à|au|aux|plutôt que|plutôt qu') ?.+)?"),
            _likes("j'(?:aime|adore) {very}{object}"),
            _is("location", "(?:j'habite|je vis|je réside) {now}(?:à|en|au|aux|dans) {value}"),
            _is("employer", "je travaille {now}(?:chez|pour) {value}"),
            _is("occupation", "je travaille {now}comme {value}"),
            _is("name", "je m'appelle {value}"),
            _has("{my} {key} (?:est|sont) {now}{value}"),
        ),
        *_only(SECOND, _has("{my} {key} (?:est|sont) {now}{value}")),
        *_only(THIRD, _has("(?:le |la |les |l'){key} {users} (?:est|sont) {now}{value}")),
    ),
)

SPANISH = Language(
    code="es",
    noun_first=True,
    hint=_plain(r"\b(?:yo|me|mis?|sus?|tus?|vivo|prefiero|odio|detesto|trabajo|usuari\w+|client\w+)\b"),
    opening=_plain("(?:(?:sí|pues|hola|vale|ok|y|pero|en realidad|por cierto|recuerda que|ten en cuenta que){pause})+"),
    padding=_plain("^(?:(?:nuevo|nueva|actual) )+|(?: actual(?:es)?)+$"),
    article=_plain("(?:el|la|los|las|un|una|unos|unas) "),
    closing=_plain("(?: (?:ahora|actualmente|mucho|también))+$"),
    says_nothing=_plain(
        r"(?:no|nunca|que|porque|cuando|si|como|desconocid\w+)\b.*|(?:eso|esto|ello|él|ella|todo|nada)"
        r"|.*\b(?:si|cuando|salvo|pero)\b.*"
    ),
    no_key=_set("que es son no ya yo tú pregunta problema opinión respuesta"),
    words={
        "very": "(?:(?:mucho|muchísimo|realmente|también) )*",
        "now": "(?:(?:ahora|actualmente|todavía) )*",
        "users": "(?:del usuario|de la usuaria|del cliente|de la cliente)",
    },
    speakers={FIRST: {"my": "mis?"}, SECOND: {"my": "(?:sus?|tus?)"}, THIRD: {"my": ""}},
    sentences=(
        *_only(
            FIRST,
            _dislikes("(?:a mí )?(?:ya )?no me gustan? (?:nada |mucho )?{object}"),
            _dislikes("(?:yo )?(?:odio|detesto) {very}{object}"),
            _prefers("(?:yo )?prefiero {object}(?: (?:a|al|antes que|en vez de|en lugar de) .+)?"),
            _likes("(?:a mí )?me (?:gustan?|encantan?) {very}{object}"),
            _is("location", "(?:yo )?vivo {now}en {value}"),
            _is("occupation", "(?:yo )?trabajo {now}(?:como|de) {value}"),
            _is("employer", "(?:yo )?trabajo {now}(?:en|para) {value}"),
            _is("name", "me llamo {value}"),
            _has("{my} {key} (?:es|son|está) {now}{value}"),
        ),
        *_only(SECOND, _has("{my} {key} (?:es|son|está) {now}{value}")),
        *_only(THIRD, _has("(?:el|la|los|las) {key} {users} (?:es|son|está) {now}{value}")),
    ),
)

CHINESE = Language(
    code="zh",
    hint=_plain("我|你|您|用户|用戶|客户|客戶|喜欢|喜歡|讨厌|討厭|厌恶|厭惡"),
    opening=_plain(
        "(?:(?:其实|其實|嗯|好的|是的|不(?=[，,、！!])|对了|對了|你好|您好|请记住|請記住|记住|記住|顺便说一下|另外|但是|但|而且)"
        r"[，,：:、！!]?\s*)+"
    ),
    padding=_plain("^(?:当前的?|當前的?|目前的?|现在的?|現在的?|新的?)+"),
    article=_plain("喝|吃|一个|一個|一种|一種|这个|這個"),
    closing=_plain("[了啦呀哦啊喔]+$"),
    says_nothing=_plain(
        "(?:不|没|沒|未知|如果|因为|因為|什么|什麼).*|(?:你|您|他|她|它|我|这|那|這)(?:个|個|些|们|們)?|所有|一切"
        "|.*(?:如果|的话|的話|除非).*"
    ),
    no_key=frozenset(),
    words={
        "now": "(?:现在|現在|目前|其实|其實|已经|已經|也|还|還|真的|一直|并|並)*",
        "very": "(?:很|非常|特别|特別|最|超|十分)*",
        "never": "(?:不再|不太|不怎么|不是很|从不|從不|再也不|不)",
        # Who speaks may go unsaid; 爱 on its own is also the first character of names.
        "likes": "(?:{someone}{now}{very}(?:喜欢|喜歡)|{who}{now}{very}(?:热爱|熱愛|爱|愛))",
        "dislikes": "(?:{someone}{now}{never}(?:喜欢|喜歡)|{who}{now}{never}(?:爱|愛))",
    },
    speakers={
        FIRST: {"who": "我", "someone": "我?"},
        SECOND: {"who": "(?:你|您)", "someone": "(?:你|您)"},
        THIRD: {"who": "(?:用户|用戶|客户|客戶)", "someone": "(?:用户|用戶|客户|客戶)"},
    },
    sentences=(
        _dislikes("{dislikes}{object}"),
        _dislikes("{someone}{now}{very}(?:讨厌|討厭|厌恶|厭惡|痛恨){object}"),
        _prefers("(?:比起.+?[，,]?)?{who}{now}(?:更喜欢|更喜歡|偏好|偏爱|偏愛|更爱|更愛){object}(?:[，,]?而不是.+)?"),
        _likes("{likes}{object}"),
        _is("location", "{who}{now}(?:住在|居住在|搬到了?){value}"),
        _is("employer", "{who}{now}在{value?}(?:工作|上班)"),
        _is("name", "{who}(?:叫|名叫){value}"),
        _has(
            r"{who}(?:的|(?=当前|當前|目前的|现在的|現在的))(?P<key>[^是，,、。：:\s]{1,20}?)(?:现在|現在|目前)?"
            r"(?:是|为|：|:|=)\s*{value}"
        ),
    ),
)

JAPANESE = Language(
    code="ja",
    hint=_plain("[ぁ-んァ-ン]"),
    opening=_plain(
        r"(?:(?:はい|いいえ|実は|ちなみに|こんにちは|でも|しかし|そして|あと|覚えておいてください)[、,：:！!]?\s*)+"
    ),
    padding=_plain("^(?:現在の|今の|新しい)+"),
    article=_plain("、"),
    closing=_plain("(?:よね?|ね|けど)$"),
    says_nothing=_plain(
        "それ|これ|あれ|あなた|彼|彼女|全部|未定|不明|なに|何"
        "|.*(?:ない|ません|なら|たら|もし|好き|嫌い|かもしれ|だった|でした).*"
    ),
    no_key=frozenset(),
    words={
        "object": "(?P<object>[^はが、。]+?)",
        "very": "(?:あまり|全然|もう|とても|本当に|すごく|一番|大変)?",
        "liked": "大?好き(?:です|だ|になりました|になった)?",
        "disliked": (
            "(?:好き(?:では|じゃ)(?:ない|ありません)(?:です)?|大?嫌い(?:です|だ|になりました|になった)?|苦手(?:です|だ)?)"
        ),
        "now": "(?:今は?|現在は?)?",
    },
    speakers={
        FIRST: {"who": r"(?:(?:私|僕|ぼく|俺|わたし)(?:は|も|、)\s*)?", "my": "(?:私|僕|ぼく|俺|わたし)の"},
        SECOND: {"who": "(?:あなた|お客様|貴方)は", "my": "(?:あなた|お客様|貴方)の"},
        THIRD: {"who": "(?:ユーザー|ユーザ|利用者|顧客)は", "my": "(?:ユーザー|ユーザ|利用者|顧客)の"},
    },
    sentences=(
        _dislikes("{who}{object}(?:のことが|が|は){very}{disliked}"),
        _prefers("{who}(?:[^はが]+?より(?:も)?)?{object}(?:の方|のほう)が{very}{liked}"),
        _likes("{who}{object}(?:のことが|が|は){very}{liked}"),
        _is("location", "{who}{now}{value?}に(?:住んで(?:います|いる|おります)|引っ越しました)"),
        _is("employer", "{who}{value?}(?:で働いて|に勤めて)(?:います|いる|おります)"),
        *_only(FIRST, _is("name", "(?:私は|私、)?{value?}(?:といいます|と言います|と申します)")),
        _has(r"{my}(?P<key>[^はがを、。\s]{1,20})は、?{now}{value?}(?:です|だ|である)?"),
    ),
)

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, JAPANESE, CHINESE)

CLAUSE = _plain(
    r"(?:,\s*| )(?:and|but|und|aber|et|mais|y|pero) (?=(?:i|i'm|my|ich|meine?r?|je|mon|ma|mes|me|mi|mis|vivo|prefiero"
    r"|odio|no me)\b|j')|[，,](?:但是|但|而且|不过|也)?(?=我|不喜欢|喜欢|讨厌)"
)
"""Where one sentence goes on with another statement."""

ASSISTANTS_OWN = _set(
    "name role job task purpose persona personality model instructions answer answers response responses tone style "
    "knowledge cutoff system_prompt prompt reply message"
)
"""What a user who says "your" to an assistant most likely speaks of: nothing about the user."""

_TOPICS: Mapping[str, str] = {
    "drink": (
        "tea coffee water juice beer wine milk cola soda lemonade matcha espresso cappuccino "
        "tee kaffee wasser saft bier wein milch thé café eau jus bière vin lait té agua zumo jugo cerveza vino leche "
        "茶 咖啡 水 果汁 啤酒 葡萄酒 牛奶 お茶 紅茶 コーヒー ジュース ビール ワイン 牛乳"
    ),
    "theme": (
        "dark_mode light_mode dark_theme light_theme dunkelmodus hellmodus 深色模式 浅色模式 ダークモード ライトモード"
    ),
    "contact_channel": "email e-mail phone telephone sms whatsapp slack 电话 邮件 短信 電話 メール",
}

TOPICS: Mapping[str, str] = MappingProxyType(
    {word.replace("_", " "): topic for topic, words in _TOPICS.items() for word in words.split()}
)
"""Kinds of things of which one is preferred at a time, by the words for them."""

SPELLINGS: Mapping[str, str] = MappingProxyType({"favorite": "favourite", "fav": "favourite"})
