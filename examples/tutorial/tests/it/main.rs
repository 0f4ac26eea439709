//! Tests of the steps of the tutorial, and of the order of operations that it describes.

mod order;
mod steps;
