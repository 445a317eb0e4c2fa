"""The languages clients speak. Siblings of one shape that never import each other."""
