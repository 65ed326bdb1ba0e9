"""The light family: hashed n-grams and simple features, in numpy."""
