"""The served site: pages, a JSON API and runs started from the browser, over one store.

`paperworks.web.app.create_app` makes the application; ``paperworks serve`` runs it.
"""
