//! Simulations: that they repeat, that the oracle finds what is wrong, and that programs of random
//! stages come to rest whatever happens.

mod blocking;
mod oracle;
mod order;
mod overload;
mod programs;
mod repeat;
mod sockets;
