"""The story of one piece of work, told from the rows it left."""
