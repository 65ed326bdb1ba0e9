"""The numbers behind the pictures: small frames, aggregated from all requests."""
