//! `phalanx broker` from the outside, with the real binary, sockets and clients.

mod access;
mod clients;
mod nodes;
mod operation;
mod process;
mod protocol;
