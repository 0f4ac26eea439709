//! Servers in use, from Debian's sources: `examples/servers/obtain.sh` builds them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{CRATE_DIR, is_installed, output, run, stingy};

/// The folder of `obtain.sh`.
const FOLDER: &str = "PHALANX_STINGY_SERVERS";

const SERVERS: [&str; 3] = ["lighttpd", "memcached", "redis"];

/// Objects that are arrays of a structure, with their lengths.
const ARRAYS: [(&str, &str, u64); 1] = [("redis", "multiCmd", 2)];

/// The folders of the built servers. If there are none, prints that the test was skipped.
fn built() -> Vec<(&'static str, PathBuf)> {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        eprintln!("SKIPPED: {FOLDER} names no folder of examples/servers/obtain.sh");
        return Vec::new();
    };
    let all = SERVERS.map(|server| (server, folder.join(server)));
    all.into_iter()
        .filter(|(server, path)| {
            let exists = path.join("stingy.built").exists();
            if !exists {
                eprintln!("SKIPPED: {server} is not built in {}", folder.display());
            }
            exists
        })
        .collect()
}

fn analysis(server: &str, folder: &Path) -> Value {
    let description = format!("{CRATE_DIR}/examples/servers/{server}.toml");
    std::fs::copy(description, folder.join("stingy.toml")).expect("the description");
    serde_json::from_str(&stingy(folder, &["memwalk", "--json"])).expect("JSON")
}

/// The transitions listed by hand: from, to, function.
fn listed(server: &str) -> BTreeSet<String> {
    let path = format!("{CRATE_DIR}/examples/servers/{server}.transitions");
    let text = std::fs::read_to_string(path).expect("the list");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn transitions_listed_by_hand_are_found() {
    for (server, folder) in built() {
        let analysis = analysis(server, &folder);
        let edges = analysis["transitions"].as_array().expect("transitions").iter();
        let found: BTreeSet<String> = edges
            .map(|edge| ["from", "to", "function"].map(|key| edge[key].as_str().expect("text")))
            .map(|edge| edge.join(" "))
            .collect();
        let listed = listed(server);
        let missing: Vec<_> = listed.difference(&found).collect();
        let (count, all) = (listed.len() - missing.len(), listed.len());
        println!("{server}: {count} of {all} transitions, {} found in all", found.len());
        assert!(100 * count >= 95 * all, "{server} lacks {missing:#?}");
    }
}

/// The sizes of structures with a tag.
fn tagged_sizes(folder: &Path, program: &str) -> HashMap<String, u64> {
    let text = run(folder, "pahole", &["--sizes", program]);
    let lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    lines
        .filter_map(|line| Some(((*line.first()?).to_owned(), line.get(1)?.parse().ok()?)))
        .collect()
}

/// The object file of a site, whose name may begin with that of the program.
fn compiled(site: &Value, program: &str) -> String {
    let source = Path::new(site["at"]["file"].as_str().expect("a file"));
    let name = Path::new(program).file_name().expect("a name").to_string_lossy();
    let stem = source.file_stem().expect("a name").to_string_lossy();
    let folder = source.parent().unwrap_or(Path::new(""));
    // redis has one program for each purpose, and no prefixes.
    let file =
        if name == "redis-server" { format!("{stem}.o") } else { format!("{name}-{stem}.o") };
    folder.join(file).display().to_string()
}

/// The size of a structure without a tag, by the name of its type.
fn alias_size(folder: &Path, program: &str, name: &str) -> Option<u64> {
    let output = output(folder, "pahole", &["--class_name", name, program]);
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rev().find_map(|line| line.trim().strip_prefix("/* size: "))?;
    last.split(',').next()?.parse().ok()
}

#[test]
fn sizes_equal_those_of_pahole() {
    let built = built();
    if built.is_empty() || !is_installed("pahole") {
        return;
    }
    for (server, folder) in built {
        let analysis = analysis(server, &folder);
        let program = analysis["program"].as_str().expect("a program");
        let description = std::fs::read_to_string(folder.join("stingy.toml"));
        let bounds = description.expect("the description");
        let tagged = tagged_sizes(&folder, program);
        let mut compared = 0;
        for object in analysis["objects"].as_array().expect("objects") {
            let name = object["name"].as_str().expect("a name");
            // Memory of members and variables has no type, and some sizes are determined at run time.
            if name.contains(['.', ':'])
                || object["bytes"].is_null()
                || bounds.contains(&format!("\"{name}\" = "))
            {
                continue;
            }
            let bytes = object["bytes"].as_u64().expect("bytes");
            let size = tagged.get(name).copied().or_else(|| alias_size(&folder, program, name));
            // Of several structures with the same name pahole shows that of a library.
            let of_source =
                || tagged_sizes(&folder, &compiled(&object["allocated"][0], program)).remove(name);
            let size = size.filter(|size| *size == bytes).or_else(of_source).expect("a size");
            if bytes != size {
                let length = ARRAYS.iter().find(|array| (array.0, array.1) == (server, name));
                let expected = length.map(|(_, _, length)| length * size);
                assert_eq!(Some(bytes), expected, "{server}: {name}, of {size} bytes each");
            }
            compared += 1;
        }
        println!("{server}: {compared} sizes are those of pahole");
        assert!(compared > 0);
    }
}
