//! Workloads that the micro-benchmarks of Paceline's parts have in common.
