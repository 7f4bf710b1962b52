"""What the product knows of each serving framework, one file a framework.

Step annotations and source paths, command grammar, logs, health, profile control.
"""
