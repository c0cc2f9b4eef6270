"""Python API: the functions behind `import traingrid as tg`, which the commands use, too."""
