//! Dependencies between crates point downwards: a crate depends only on the crates that the table allows.

use std::collections::BTreeMap;

use super::read::manifest;
use super::{Fault, Tree};

/// Crates by their folders, and the workspace crates that each and its tests may depend on.
type Table = [(&'static str, &'static [&'static str])];

/// The crates of this repository. Core, driver and http are independent of each other; `phalanx` joins core and driver;
/// the servers use `phalanx`; the command uses everything. A file that needs an edge upwards belongs in another crate.
const ALLOWED: &Table = &[
    ("core", &[]),
    ("driver", &["testkit"]),
    ("fibre", &["core"]),
    // A library that `cli` compiles and embeds; the command itself uses one of its modules.
    ("threads", &[]),
    ("http", &["http2"]),
    ("http2", &[]),
    ("http3", &["http2"]),
    ("matcher", &[]),
    ("mqtt", &[]),
    ("macros", &[]),
    // Only for tests.
    ("testkit", &["mqtt"]),
    ("phalanx", &["core", "driver", "fibre", "macros", "testkit"]),
    ("axum", &["compat", "phalanx", "testkit", "tls"]),
    ("compat", &["phalanx", "testkit"]),
    ("matching", &["matcher", "phalanx"]),
    ("guard", &[]),
    ("config", &[]),
    ("service", &["config", "phalanx"]),
    ("websocket", &[]),
    ("quic", &["phalanx", "testkit"]),
    ("acme", &["phalanx", "tls"]),
    ("tls", &["phalanx"]),
    ("nats", &["phalanx", "testkit", "tls"]),
    (
        "web",
        &[
            "access", "acme", "compat", "config", "guard", "http", "http2", "http3", "phalanx",
            "quic", "service", "testkit", "tls",
        ],
    ),
    ("store", &["phalanx"]),
    ("postgres", &["phalanx", "testkit", "tls"]),
    ("access", &["guard", "http", "phalanx", "tls"]),
    (
        "broker",
        &[
            "access",
            "config",
            "guard",
            "matcher",
            "mqtt",
            "nats",
            "phalanx",
            "service",
            "store",
            "testkit",
            "tls",
            "websocket",
        ],
    ),
    (
        "bench",
        &[
            "core", "driver", "http", "http2", "kernels", "matcher", "matching", "mqtt", "phalanx",
            "testkit", "tls",
        ],
    ),
    // The program that `xtask gates` counts.
    ("kernels", &["core", "http", "matcher"]),
    (
        "cli",
        &[
            "access",
            "broker",
            "config",
            "http",
            "mqtt",
            "phalanx",
            "service",
            "testkit",
            "threads",
            "tls",
            "web",
            "websocket",
        ],
    ),
    ("kv", &["phalanx", "testkit"]),
    ("orders", &["axum", "phalanx", "postgres", "testkit"]),
    ("tutorial", &["phalanx", "testkit"]),
    ("log", &["phalanx", "testkit"]),
    (
        "fuzz",
        &[
            "broker",
            "config",
            "guard",
            "http",
            "http2",
            "http3",
            "matcher",
            "mqtt",
            "nats",
            "store",
            "web",
            "websocket",
        ],
    ),
    ("xtask", &["mqtt"]),
    // A project for users.
    ("template", &["axum", "phalanx"]),
    // Tools for servers written in C.
    ("stingy", &[]),
    // Peers that `bench` starts for comparison.
    ("a-tree", &[]),
    ("axum-arms", &["axum", "phalanx", "postgres"]),
    ("http-arms", &[]),
    ("axum-libraries", &["axum", "phalanx", "testkit"]),
    ("runtimes", &["phalanx"]),
    ("map", &["phalanx"]),
    ("database", &["phalanx", "postgres", "testkit"]),
];

/// Finds dependencies that the table does not allow, crates that it does not list, and edges that no manifest uses.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    check_against(ALLOWED, tree)
}

fn check_against(table: &Table, tree: &Tree) -> Vec<Fault> {
    // Package name to folder, path and text of the manifest.
    let crates: BTreeMap<&str, (&str, &str, &str)> = tree
        .texts()
        .filter_map(|(path, text)| {
            let folder = path.strip_suffix("/Cargo.toml")?.rsplit('/').next()?;
            Some((manifest::name(text)?, (folder, path, text)))
        })
        .collect();
    let mut faults = Vec::new();
    for &(folder, path, text) in crates.values() {
        let Some((_, allowed)) = table.iter().find(|(name, _)| *name == folder) else {
            let message =
                format!("the crate `{folder}` has no layer; add it to xtask/src/tidy/layers.rs");
            faults.push(Fault::new(path, 1, message));
            continue;
        };
        let mut used = Vec::new();
        for dependency in manifest::dependencies(text) {
            let Some(&(below, ..)) = crates.get(dependency.name.as_str()) else { continue };
            if below == folder {
                // Its tests, with other features.
                continue;
            }
            used.push(below);
            if !allowed.contains(&below) {
                let message = format!(
                    "`{folder}` depends on `{below}`, which is not below it; \
                     move the dependent code up or the required code down"
                );
                faults.push(Fault::new(path, dependency.line, message));
            }
        }
        for below in allowed.iter().filter(|below| !used.contains(below)) {
            let message =
                format!("`{folder}` does not depend on `{below}`; remove the edge from the table");
            faults.push(Fault::new(path, 1, message));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &Table =
        &[("core", &[]), ("guard", &[]), ("phalanx", &["core"]), ("tls", &["phalanx"])];

    fn faults_with(other: (&str, &str)) -> Vec<String> {
        let core = ("crates/core/Cargo.toml", "[package]\nname = \"phalanx-core\"\n");
        let phalanx = (
            "crates/phalanx/Cargo.toml",
            "[package]\nname = \"phalanx\"\n[dependencies]\nphalanx-core.workspace = true\nslab = \"0\"\n",
        );
        let faults = check_against(TABLE, &Tree::from_files(&[core, phalanx, other]));
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn downward_dependencies_are_allowed() {
        let tls = "[package]\nname = \"phalanx-tls\"\n[dependencies]\nphalanx.workspace = true\n";
        assert_eq!(faults_with(("crates/tls/Cargo.toml", tls)), [""; 0]);
    }

    #[test]
    fn edges_that_no_manifest_uses_are_reported() {
        let faults = faults_with(("crates/tls/Cargo.toml", "[package]\nname = \"phalanx-tls\"\n"));
        assert!(
            faults.len() == 1 && faults[0].contains("does not depend on `phalanx`"),
            "{faults:?}"
        );
    }

    #[test]
    fn upward_and_sideward_dependencies_are_reported() {
        let guard = "[package]\nname = \"phalanx-guard\"\n\n[dev-dependencies]\nphalanx = { path = \"../phalanx\" }\n";
        let faults = faults_with(("crates/guard/Cargo.toml", guard));
        assert!(
            faults.len() == 1 && faults[0].starts_with("crates/guard/Cargo.toml:5: "),
            "{faults:?}"
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_reported() {
        let faults =
            faults_with(("crates/fish/Cargo.toml", "[package]\nname = \"phalanx-fish\"\n"));
        assert!(faults.len() == 1 && faults[0].contains("`fish` has no layer"), "{faults:?}");
    }

    #[test]
    fn the_table_has_no_cycle() {
        // An acyclic table has no path longer than the number of its rows.
        fn depth(name: &str, fuel: usize) -> usize {
            assert!(fuel > 0, "a cycle through `{name}`");
            let row = ALLOWED.iter().find(|(n, _)| *n == name).expect("a row for every name");
            row.1.iter().map(|below| 1 + depth(below, fuel - 1)).max().unwrap_or(0)
        }
        for (name, _) in ALLOWED {
            assert!(depth(name, ALLOWED.len()) < ALLOWED.len());
        }
    }
}
