"""What a host reported, as plain typed values: parsing, normalising and folding, without a framework or a database."""
