"""The same work through Paceline and other simulators of LLM serving that registries offer.

``python -m benches.peers measure`` runs all of them, ``python -m benches.peers table`` writes the tables into
``COMPARE.md``. Each file in ``adapters/`` is one simulator; ``README.md`` says what is compared and how.
"""
