//! Import cycles between the files of a crate: at most [`MAX_FILES`] files may import each other in a circle, and fewer
//! in the crates of [`STRICTER`].
//!
//! Only paths that begin with `crate` or `super` count. A path to an item leads to the file of the innermost module
//! that it names, so a re-export is a dependency on the file with the re-export. Tests are exempt, as are paths to the
//! crate root.

use std::collections::{BTreeMap, BTreeSet};

use super::read::crate_source::files;
use super::read::use_paths::absolute;
use super::{Fault, Tree};

/// Maximum number of files in a cycle.
const MAX_FILES: usize = 3;

/// Source folders with a lower maximum.
const STRICTER: &[(&str, usize)] = &[("crates/core/src/", 2)];

/// Modules by their path, as `crate::a::b`, with the modules that they import.
pub(super) type Imports = BTreeMap<String, BTreeSet<String>>;

/// Finds cycles of too many files.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let roots = tree.rust().filter_map(|(path, _)| {
        path.strip_suffix("src/lib.rs").or_else(|| path.strip_suffix("src/main.rs"))
    });
    let roots: BTreeSet<String> = roots.map(|folder| format!("{folder}src/")).collect();
    roots.iter().flat_map(|source| check_crate(tree, source)).collect()
}

/// [`check`] for the crate with this source folder.
fn check_crate(tree: &Tree, source: &str) -> Vec<Fault> {
    let stricter = STRICTER.iter().find(|(folder, _)| *folder == source);
    let max_files = stricter.map_or(MAX_FILES, |(_, max)| *max);
    let (paths, imports) = imports(tree, source);
    let reachable: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|module| (module, reachable(module, &imports))).collect();
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for (module, others) in &reachable {
        let cycle: Vec<&str> = others
            .iter()
            .filter(|other| reachable[*other].contains(module))
            .map(|other| paths[*other])
            .collect();
        let is_first = seen.insert(cycle.clone());
        if cycle.len() <= max_files || !is_first {
            continue;
        }
        let message = format!(
            "{} files import each other in a circle, at most {max_files} are allowed: {}; move what they \
             share to a lower file",
            cycle.len(),
            cycle.join(", ")
        );
        faults.push(Fault::new(cycle[0], 1, message));
    }
    faults
}

/// The file of each module of the crate with this source folder, and the modules that it imports.
pub(super) fn imports<'a>(tree: &'a Tree, source: &str) -> (BTreeMap<String, &'a str>, Imports) {
    let files = files(tree, source);
    let paths: BTreeMap<String, &str> =
        files.iter().map(|(path, _)| (module(&path[source.len()..]), *path)).collect();
    let mut imports = Imports::new();
    for (path, code) in &files {
        let own_path = module(&path[source.len()..]);
        let accesses_found = absolute(&path[source.len()..], code).into_iter();
        let targets = accesses_found.filter_map(|(_, import)| innermost(&import, &paths));
        let others = targets.filter(|target| *target != own_path && target != "crate").collect();
        imports.insert(own_path, others);
    }
    (paths, imports)
}

/// The path of the module in the file at `path`, which is relative to `src`.
fn module(path: &str) -> String {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if ["lib", "main"].contains(&stem) {
        return "crate".to_owned();
    }
    format!("crate::{}", stem.replace('/', "::"))
}

/// The innermost module with a file of its own that `import` names.
fn innermost(import: &str, modules: &BTreeMap<String, &str>) -> Option<String> {
    let mut path = import;
    while !modules.contains_key(path) {
        path = path.rsplit_once("::")?.0;
    }
    Some(path.to_owned())
}

/// All modules that `module` imports, directly or through others.
pub(super) fn reachable<'a>(module: &String, imports: &'a Imports) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = imports[module].iter().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(imports.get(module).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a crate whose files `a` to `e` import the given modules.
    fn faults(imports: [&str; 5]) -> Vec<String> {
        faults_in("x/src/", imports)
    }

    /// Like [`faults`], in this source folder.
    fn faults_in(source: &str, imports: [&str; 5]) -> Vec<String> {
        let names = ["a", "b/mod", "b/c", "d", "e"];
        let mut all = vec![(format!("{source}lib.rs"), "use crate::a::A;".to_owned())];
        all.extend(
            names
                .iter()
                .zip(imports)
                .map(|(name, import)| (format!("{source}{name}.rs"), import.to_owned())),
        );
        let all: Vec<_> = all.iter().map(|(path, text)| (&path[..], &text[..])).collect();
        check(&Tree::from_files(&all)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn large_cycles_are_reported_once() {
        let found = faults([
            "use crate::b::B;",
            "fn f() { super::b::c::g() }",
            "use super::super::d::D;",
            "use crate::{e::E, a::A};",
            "",
        ]);
        assert_eq!(
            found,
            [
                "x/src/a.rs:1: 4 files import each other in a circle, at most 3 are allowed: x/src/a.rs, \
                 x/src/b/mod.rs, x/src/b/c.rs, x/src/d.rs; move what they share to a lower file"
            ]
        );
    }

    #[test]
    fn small_cycles_and_chains_are_allowed() {
        let cycle = ["use crate::b::c::C;", "", "use crate::d::D;", "use crate::a::A;", ""];
        assert_eq!(faults(cycle), [""; 0]);
        let chain =
            ["use crate::b::B;", "use crate::b::c::C;", "use crate::d::D;", "use crate::e::E;", ""];
        assert_eq!(faults(chain), [""; 0]);
    }

    #[test]
    fn core_has_a_lower_maximum() {
        let three = ["use crate::b::c::C;", "", "use crate::d::D;", "use crate::a::A;", ""];
        let found = faults_in("crates/core/src/", three);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("3 files import each other in a circle, at most 2 are allowed"));
        let two = ["use crate::d::D;", "", "", "use crate::a::A;", ""];
        assert_eq!(faults_in("crates/core/src/", two), [""; 0]);
    }

    #[test]
    fn tests_and_the_crate_root_do_not_count() {
        let back = "use crate::Root;\n#[cfg(test)]\nmod tests { use crate::a::A; }";
        let chain = [
            "use crate::b::B;",
            "use crate::b::c::C;",
            "use crate::d::D;",
            "use crate::e::E;",
            back,
        ];
        assert_eq!(faults(chain), [""; 0]);
    }
}
