"""The shell of OpenWOP UI: settings, tenancy and live messages below; URLs, ASGI and the API above."""

VERSION = "0.1.0"
