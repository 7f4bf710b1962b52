"""Evidence across tasks: records, index, search, compare, wiki, PR history."""
