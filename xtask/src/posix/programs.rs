//! The programs of the suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::options::Options;

/// Interfaces whose tests change the machine: its clock.
const SKIPPED: &[&str] = &["clock_settime"];

/// A test.
pub(super) struct Program {
    /// The interface and the number of the test, such as `pthread_join/4-1`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// An empty folder in which the test runs.
    pub(super) folder: PathBuf,
}

/// Compiles the selected tests that are older than their sources.
pub(super) fn compile(options: &Options, target: &Path) -> Result<Vec<Program>, String> {
    let interfaces = options.suite.join("conformance/interfaces");
    let sources = sources(&interfaces, &options.filters)?;
    if sources.is_empty() {
        return Err(format!("no test in {} matches", interfaces.display()));
    }
    let library = files(&options.suite.join("lib"), "c").unwrap_or_default();
    fs::create_dir_all(target.join("bin"))
        .map_err(|error| format!("cannot create a folder: {error}"))?;
    let (next, compiled) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some((name, source)) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let file = name.replace('/', "__");
                    let path = target.join("bin").join(&file);
                    if !is_newer(&path, source) && !build(options, source, &library, &path) {
                        println!("skipped  {name}: does not compile");
                        continue;
                    }
                    let folder = target.join("run").join(file);
                    let program = Program { name: name.clone(), path, folder };
                    compiled.lock().expect("no thread panics").push(program);
                }
            });
        }
    });
    let mut compiled = compiled.into_inner().expect("no thread panics");
    compiled.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(compiled)
}

/// Names and paths of the selected tests.
fn sources(interfaces: &Path, filters: &[String]) -> Result<Vec<(String, PathBuf)>, String> {
    let folders = fs::read_dir(interfaces)
        .map_err(|error| format!("cannot read {}: {error}", interfaces.display()))?;
    let mut sources = Vec::new();
    for folder in folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let interface = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if SKIPPED.contains(&interface.as_str()) {
            continue;
        }
        for file in files(&folder, "c")? {
            // Other files are parts of tests.
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{interface}/{stem}");
            let is_selected =
                filters.is_empty() || filters.iter().any(|filter| name.starts_with(filter));
            if is_selected && stem.starts_with(|first: char| first.is_ascii_digit()) {
                sources.push((name, file));
            }
        }
    }
    sources.sort();
    Ok(sources)
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect())
}

fn is_newer(program: &Path, source: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    time(program) > time(source)
}

fn build(options: &Options, source: &Path, library: &[PathBuf], program: &Path) -> bool {
    let mut command = Command::new("cc");
    command
        .args(["-w", "-O1", "-g", "-std=gnu99", "-D_GNU_SOURCE", "-D_XOPEN_SOURCE=700"])
        .arg("-I")
        .arg(options.suite.join("include"))
        .arg("-o")
        .arg(program)
        .arg(source)
        .args(library)
        .args(["-lpthread", "-lrt", "-lm"]);
    command.output().is_ok_and(|output| output.status.success())
}
