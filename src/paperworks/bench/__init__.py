"""The experiment layer: what a study is, how it runs, where results live and what they say."""
