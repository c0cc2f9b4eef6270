"""Claims about AWS that traingrid depends on, each checked against a local AWS in CI, or against a real account."""
