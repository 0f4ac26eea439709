//! Imports between the layers of a crate, or of one of its folders: a file may name items of its own layer and of lower ones.
//!
//! The layers are listed in [`super::module_layers`]. The check covers every path that begins with `crate` or that
//! climbs to the crate root with `super`, in `use` items and in expressions. Tests are exempt, as are `lib.rs` and
//! `main.rs`. A path to an item that is re-exported at the crate root hides the layer of that item, so it is reported
//! as well.

use std::collections::BTreeSet;

use super::module_layers::{CRATES, Exception, Layers, MAX_EXCEPTIONS};
use super::read::crate_source::files;
use super::read::use_paths::absolute;
use super::{Fault, Tree};

/// The file that lists the layers.
const TABLE: &str = "xtask/src/tidy/module_layers.rs";

/// Finds upward imports, paths through the crate root, modules without a layer, layers without a module and unused
/// exceptions.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    CRATES.iter().flat_map(|layers| check_crate(tree, layers)).collect()
}

/// [`check`] for one crate.
fn check_crate(tree: &Tree, layers: &Layers) -> Vec<Fault> {
    let source = layers.source();
    let (root, folder) = source.split_at(source.find("/src/").map_or(0, |at| at + "/src/".len()));
    let own_path = format!("crate::{}", folder.replace('/', "::"));
    let files = files(tree, &source);
    let modules: BTreeSet<&str> =
        files.iter().filter_map(|(path, _)| module(path, &source)).collect();
    let mut faults = Vec::new();
    let mut used = vec![false; layers.exceptions.len()];
    for (path, code) in &files {
        let Some(layer) = module(path, &source).and_then(|name| layers.level(name)) else {
            continue;
        };
        for (line, import) in absolute(&path[root.len()..], code) {
            let Some(inner) = import.strip_prefix(&own_path) else { continue };
            let target = inner.split("::").next().unwrap_or_default();
            if !modules.contains(target) {
                let message = format!(
                    "`{import}` is a path through the root of `{}`; name the module that defines the item",
                    layers.folder
                );
                faults.push(Fault::new(path, line, message));
            } else if layers.level(target).is_some_and(|above| above > layer) {
                let is_exempt = |e: &Exception| e.file == *path && e.target == target;
                match layers.exceptions.iter().position(is_exempt) {
                    Some(exempt) => used[exempt] = true,
                    None => {
                        let message = format!(
                            "`{import}` is in a higher layer; move the item down or this code up \
                             (layers: {TABLE})"
                        );
                        faults.push(Fault::new(path, line, message));
                    }
                }
            }
        }
    }
    faults.extend(mismatches(&modules, layers));
    faults.extend(unneeded(layers, &used));
    faults
}

/// Modules without a layer, and listed modules that do not exist.
fn mismatches(modules: &BTreeSet<&str>, layers: &Layers) -> Vec<Fault> {
    let listed: BTreeSet<&str> = layers.layers.iter().copied().flatten().copied().collect();
    let fault = |name: &str, message: &str| {
        Fault::new(TABLE, 1, format!("`{}{name}` {message}", layers.source()))
    };
    let missing = modules.difference(&listed).map(|name| fault(name, "has no layer; add it"));
    let stale = listed.difference(modules).map(|name| fault(name, "does not exist; remove it"));
    missing.chain(stale).collect()
}

/// Exceptions that no import needs, and exceptions beyond the permitted number.
fn unneeded(layers: &Layers, used: &[bool]) -> Vec<Fault> {
    let unused = layers.exceptions.iter().zip(used).filter(|(_, used)| !**used);
    let mut faults: Vec<Fault> = unused
        .map(|(Exception { file, target, .. }, _)| {
            Fault::new(
                TABLE,
                1,
                format!("the exception of `{file}` for `{target}` is unused; remove it"),
            )
        })
        .collect();
    if layers.exceptions.len() > MAX_EXCEPTIONS {
        let message = format!(
            "{} exceptions, at most {MAX_EXCEPTIONS} are allowed; remove an upward import",
            layers.exceptions.len()
        );
        faults.push(Fault::new(TABLE, 1, message));
    }
    if let Some(exception) = layers.exceptions.iter().find(|e| e.reason.trim().is_empty()) {
        let message = format!("the exception of `{}` has no reason; state it", exception.file);
        faults.push(Fault::new(TABLE, 1, message));
    }
    faults
}

impl Layers {
    /// The folder of the modules, with `/` at the end.
    fn source(&self) -> String {
        let Self { folder, .. } = self;
        if folder.contains("/src/") { format!("{folder}/") } else { format!("{folder}/src/") }
    }

    /// The layer of the module `name` directly under the folder; the lowest is 0.
    fn level(&self, name: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&name))
    }
}

/// The module directly under `source` that contains the file at `path`; `None` for the root of `source` itself.
fn module<'a>(path: &'a str, source: &str) -> Option<&'a str> {
    let path = path.strip_prefix(source)?;
    let name = path.split_once('/').map_or_else(|| path.trim_end_matches(".rs"), |(name, _)| name);
    (!["lib", "main", "mod"].contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: Layers = Layers {
        folder: "crates/core",
        layers: &[&["error", "sync"], &["queue"], &["stage"], &["processor"]],
        exceptions: &[],
    };

    const EXCEPTED: Layers = Layers {
        exceptions: &[Exception {
            file: "crates/core/src/queue/ring.rs",
            target: "processor",
            reason: "a test of the check",
        }],
        ..LAYERS
    };

    /// The faults of core with one file in each layer and `text` in `file`.
    fn faults_of(file: &str, text: &str, layers: &Layers) -> Vec<String> {
        let file = format!("crates/core/src/{file}");
        let mut all = vec![
            ("crates/core/src/lib.rs", "pub use crate::processor::Processor;"),
            ("crates/core/src/error.rs", ""),
            ("crates/core/src/sync.rs", "use crate::error::Error;"),
            ("crates/core/src/queue/mod.rs", ""),
            ("crates/core/src/stage/mod.rs", ""),
            ("crates/core/src/processor/mod.rs", ""),
        ];
        all.retain(|(path, _)| *path != file);
        all.push((&file, text));
        check_crate(&Tree::from_files(&all), layers).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn downward_imports_are_allowed() {
        let text = "use crate::{error::Error, queue::Ring, stage::{self, Key}};\n\
                    use super::Processor; use super::super::queue::Ring;";
        assert_eq!(faults_of("processor/turn.rs", text, &LAYERS), [""; 0]);
    }

    #[test]
    fn upward_imports_are_reported() {
        let text = "use std::fmt;\nuse crate::{error::Error,\n    processor::Processor};";
        assert_eq!(
            faults_of("queue/ring.rs", text, &LAYERS),
            [
                "crates/core/src/queue/ring.rs:3: `crate::processor::Processor` is in a higher layer; move the item \
              down or this code up (layers: xtask/src/tidy/module_layers.rs)"
            ]
        );
        let inline = "fn f() -> crate::stage::Key { super::super::processor::key() }";
        assert_eq!(faults_of("queue/ring.rs", inline, &LAYERS).len(), 2);
        assert_eq!(faults_of("queue/mod.rs", "use super::stage::Key;", &LAYERS).len(), 1);
        assert_eq!(faults_of("error.rs", "use crate::queue::Ring;", &LAYERS).len(), 1);
    }

    #[test]
    fn paths_through_the_crate_root_are_reported() {
        let faults = faults_of("stage/mod.rs", "use crate::{Processor, queue::Ring};", &LAYERS);
        assert_eq!(
            faults,
            ["crates/core/src/stage/mod.rs:1: `crate::Processor` is a path through the root of \
              `crates/core`; name the module that defines the item"]
        );
    }

    #[test]
    fn layers_of_a_folder_restrict_paths_within_it() {
        let layers = Layers {
            folder: "crates/core/src/processor",
            layers: &[&["part"], &["turn"]],
            exceptions: &[],
        };
        let faults = |text: &str| -> usize {
            let all = [
                ("crates/core/src/processor/mod.rs", "use crate::processor::turn::Turn;"),
                ("crates/core/src/processor/turn.rs", "use crate::processor::part::Part;"),
                ("crates/core/src/processor/part.rs", text),
            ];
            check_crate(&Tree::from_files(&all), &layers).len()
        };
        assert_eq!(faults("use crate::handle::Handle; use super::super::calls::call;"), 0);
        assert_eq!(faults("use crate::processor::turn::Turn;"), 1);
        assert_eq!(faults("use super::turn::Turn;"), 1);
        assert_eq!(faults("use crate::processor::Processor;"), 1);
    }

    #[test]
    fn tests_are_exempt() {
        let text = "#[cfg(test)]\nmod tests { use crate::processor::Processor; }";
        assert_eq!(faults_of("queue/ring.rs", text, &LAYERS), [""; 0]);
    }

    #[test]
    fn an_exception_permits_one_target_of_one_file() {
        let both = "use crate::processor::Processor;\nuse crate::stage::Key;";
        let faults = faults_of("queue/ring.rs", both, &EXCEPTED);
        assert!(faults.len() == 1 && faults[0].contains("`crate::stage::Key`"), "{faults:?}");
    }

    #[test]
    fn an_unused_exception_is_reported() {
        let faults = faults_of("queue/ring.rs", "use crate::error::Error;", &EXCEPTED);
        assert!(faults.len() == 1 && faults[0].contains("is unused; remove it"), "{faults:?}");
    }

    #[test]
    fn modules_without_a_layer_are_reported() {
        for (file, name) in [("fish/mod.rs", "fish"), ("turn.rs", "turn")] {
            let faults = faults_of(file, "", &LAYERS);
            assert!(
                faults.len() == 1 && faults[0].contains(&format!("src/{name}` has no layer")),
                "{faults:?}"
            );
        }
    }

    #[test]
    fn listed_modules_that_do_not_exist_are_reported() {
        let layers = Layers { layers: &[&["error", "sync"], &["queue", "fish"]], ..LAYERS };
        let faults = faults_of("queue/mod.rs", "", &layers);
        assert!(faults.iter().any(|f| f.contains("src/fish` does not exist")), "{faults:?}");
    }
}
