//! x
fn main(){ phalanx_bench::op::scratch(&std::env::args().nth(1).unwrap(), std::env::args().nth(2).map_or(6_400_000,|a|a.parse().unwrap())); }
