//! Simulations: repeated runs, faults detected by the oracle, and random programs.

mod active;
mod blocking;
mod endless;
mod exhaustive;
mod exhaustive_bounds;
mod fibres;
mod oracle;
mod order;
mod overload;
mod placement;
mod programs;
mod repeat;
mod sockets;
