"""The suite's main job, played on real input by real processes, and checked."""
