"""Django's settings. What an operator may change is read from the environment, see `environment.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from openwop_ui import environment
from openwop_ui.postgres import address

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = environment.DATA_DIR.value()

# --- Who may talk to the site ---

DEBUG = environment.DEBUG.value()
SECRET_KEY = environment.kept_key(environment.SECRET_KEY, DATA_DIR)
CREDENTIALS_KEY = environment.kept_key(environment.CREDENTIALS_KEY, DATA_DIR)
ALLOWED_HOSTS = environment.ALLOWED_HOSTS.value()
ALLOW_PRIVATE_HOSTS = environment.ALLOW_PRIVATE_HOSTS.value()
CSRF_TRUSTED_ORIGINS = environment.TRUSTED_ORIGINS.value()

HTTPS = environment.HTTPS.value()
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_SSL_REDIRECT = HTTPS
# Asked by probes on the machine itself, which do not come through the proxy.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "openwop_session"
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_NAME = "openwop_csrf"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        # 'self' includes ws: and wss: of the same origin.
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

# --- What is in the house ---

INSTALLED_APPS = [
    "openwop_ui.tenancy.apps.ConsoleConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django_htmx",
    "template_partials",
    "csp",
    "ninja",
    "channels",
    "openwop_ui.tenancy.apps.TenancyConfig",
    "openwop_ui.live",
    "openwop_ui.launch",
    "openwop_ui.demo",
    "openwop_ui.bench",
    "runs",
    "ledger",
]
MIDDLEWARE = [
    "openwop_ui.metrics.count_requests",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "openwop_ui.urls"
APPEND_SLASH = False
WSGI_APPLICATION = "openwop_ui.wsgi.application"
ASGI_APPLICATION = "openwop_ui.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "openwop_ui.tenancy.context.bar",
                "ledger.context.bar",
            ],
        },
    }
]

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True

# --- Where things are kept ---

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **address.django_settings(
            environment.DATABASE_URL.value() or address.recorded_url(DATA_DIR) or address.NOWHERE,
            application_name="openwop-ui",
        ),
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYER_URL = environment.CHANNEL_LAYER_URL.value()
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [CHANNEL_LAYER_URL], "prefix": "openwop", "capacity": 10_000, "expiry": 60},
    }
    if CHANNEL_LAYER_URL
    # Does not cross processes, and need not: every web process hears PostgreSQL's notifications itself.
    else {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {"capacity": 10_000, "expiry": 60}}
}

TRACE_TIMEOUT = environment.TRACE_TIMEOUT.value()
EXTRACTOR_URL = environment.EXTRACTOR_URL.value()
EXTRACTOR_MODEL = environment.EXTRACTOR_MODEL.value()
EXTRACTOR_KEY = environment.EXTRACTOR_KEY.value()
MAX_EVENT_BYTES = environment.MAX_EVENT_BYTES.value()
MAX_BODY_BYTES = environment.MAX_BODY_BYTES.value()
# Bounds what `request.body` may hold in memory. Intake reads the stream itself, under MAX_BODY_BYTES.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * environment.MEBIBYTE
FILE_UPLOAD_MAX_MEMORY_SIZE = 1 * environment.MEBIBYTE

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns of a missing one
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "openwop_ui.launch.assets.AssetStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
WHITENOISE_MAX_AGE = 0 if DEBUG else 60

# --- What is said about it ---

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "openwop_ui.launch.logs.LineFormatter"}},
    "filters": {"no_hang_ups": {"()": "openwop_ui.launch.logs.NoHangUps"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["no_hang_ups"]}},
    "root": {"handlers": ["stderr"], "level": environment.LOG_LEVEL.value()},
    # Django's own handlers print in DEBUG only and send mail otherwise; its messages go where all go.
    "loggers": {
        "django": {"handlers": [], "propagate": True},
        "django.server": {"handlers": [], "propagate": True},
        "uvicorn": {"level": "WARNING"},
        # One line a request that the follower makes; what matters of them is on the host's page.
        "httpx": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
    },
}
