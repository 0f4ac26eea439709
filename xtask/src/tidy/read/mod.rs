//! Reading the files of the repository: the tree, Rust source, manifests and Markdown.

pub(crate) mod crate_source;
pub(crate) mod manifest;
pub(crate) mod markdown;
pub(crate) mod source;
pub(crate) mod tree;
pub(crate) mod use_paths;
