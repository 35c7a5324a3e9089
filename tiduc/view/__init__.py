"""Pictures of programs: a module is read into scenes, scenes are folded, and drawn by Graphviz or printed as text."""
