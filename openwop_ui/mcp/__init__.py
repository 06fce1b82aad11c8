"""The Model Context Protocol at /mcp: streamable HTTP, with the same keys, scopes and tenants as the REST API."""
