//! `cargo xtask tidy`: checks the rules of this repository that the compiler does not check.
//!
//! Every check is a function from the [`Tree`] of files to the faults it found, in a file of its own, with tests
//! on planted faults. To add a check, write it and list it in [`CHECKS`].

use std::fmt;
use std::path::Path;

mod heads;
pub(crate) mod import_picture;
mod kernel_size;
mod layers;
mod leftovers;
mod module_cycles;
mod module_imports;
mod module_layers;
mod pages;
mod purity;
pub(crate) mod read;
mod retired;
mod sizes;
mod spaces;
pub(crate) mod summary_chart;
mod unsafety;

use read::tree::Tree;

use crate::task::Outcome;

/// A check: returns all faults of its kind in the tree.
type Check = fn(&Tree) -> Vec<Fault>;

/// The checks. Their order is irrelevant, since faults are sorted before they are printed.
const CHECKS: &[Check] = &[
    purity::check,
    module_cycles::check,
    module_imports::check,
    layers::check,
    sizes::check,
    kernel_size::check,
    unsafety::check,
    leftovers::check,
    pages::links::check,
    pages::index::check,
    pages::quotes::check,
    pages::report_section::check,
    retired::check,
    heads::check,
    spaces::check,
    summary_chart::check,
];

/// A violation of a rule, with its location and remedy.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Fault {
    /// The file, from the workspace root.
    path: String,
    /// The line, counted from 1.
    line: usize,
    /// The problem and its remedy.
    message: String,
}

impl Fault {
    /// A fault at line `line` (counted from 1) of `path`.
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Runs every check on the files under `root` that git tracks or would track, and prints the faults.
pub(crate) fn run(root: &Path) -> Outcome {
    let tree = Tree::load(root);
    let tree = tree.map_err(|error| format!("cannot list the files: {error}"))?;
    let mut faults: Vec<Fault> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    faults.sort();
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => println!("tidy: {} files, no faults", tree.len()),
        count => println!("tidy: {count} faults in {} files", tree.len()),
    }
    Ok(faults.is_empty())
}
