"""Work sessions: grants, renewals, outcomes."""
