//! Files: opening beneath a directory, reading from the page cache, copying into sockets.

pub(crate) mod file;
pub(crate) mod mmap;
pub(crate) mod page_cache;
pub(crate) mod read;
pub(crate) mod read_dir;
pub(crate) mod resolve_beneath;
pub(crate) mod sendfile;

#[cfg(all(test, target_os = "linux"))]
mod sandbox_tests;
