"""Report: one HTML file about a submission, to archive, mail or attach to a paper."""
