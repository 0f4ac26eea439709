//! `phalanx web` from the outside, with the real binary, sockets, files and curl.

mod acme;
mod admin;
mod connections;
mod files;
mod operation;
mod responses;
