"""Results for people: tables in the terminal, charts and static pages."""
