"""Forward passes, layers, layer clusters, compute flow, Perfetto ranges, roofline and ceiling."""
