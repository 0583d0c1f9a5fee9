//! holdfast
fn main(){}
