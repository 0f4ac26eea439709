//! x
fn main(){ println!("{:#?}", phalanx_bench::op::run(15, 640_000)); }
