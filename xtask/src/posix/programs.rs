//! The programs of the suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Options;
use crate::parallel;

/// Folders whose tests change the machine: its clock.
const SKIPPED_FOLDERS: &[&str] = &["clock_settime", "clocks"];
/// Folders of the suite: tests of interfaces, whose names begin with a digit, and tests of their interplay.
const INTERFACES: &str = "conformance/interfaces";
const OTHER_SUITES: [&str; 2] = ["functional", "stress"];
/// Files that other tests include or that run them, and measurements of scalability, which create as many threads or
/// processes as the machine permits.
const PARTS: &[&str] = &["testfrmw", "threads_scenarii", "helper", "s-c", "s-c1", "s-c2"];

/// A test.
pub(super) struct Program {
    /// The interface and the number of the test, such as `pthread_join/4-1`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// An empty folder in which the test runs.
    pub(super) folder: PathBuf,
    /// Whether the test runs until it receives SIGUSR1.
    pub(super) is_endless: bool,
}

impl Program {
    /// Whether the test is one of those that strain the machine.
    pub(super) fn is_stress(&self) -> bool {
        self.name.starts_with("stress/")
    }
}

/// Compiles the selected tests that are older than their sources.
pub(super) fn compile(options: &Options, target: &Path) -> Result<Vec<Program>, String> {
    let sources = sources(&options.suite, &options.filters)?;
    if sources.is_empty() {
        return Err(format!("no test in {} matches", options.suite.display()));
    }
    let library = files(&options.suite.join("lib"), "c").unwrap_or_default();
    fs::create_dir_all(target.join("bin"))
        .map_err(|error| format!("cannot create a folder: {error}"))?;
    let compiled = parallel::map(&sources, options.jobs(), |(name, source)| {
        let file = name.replace('/', "__");
        let path = target.join("bin").join(&file);
        if !is_newer(&path, source) && !build(options, source, &library, &path) {
            println!("skipped  {name}: does not compile");
            return None;
        }
        let folder = target.join("run").join(file);
        Some(Program { name: name.clone(), path, folder, is_endless: is_endless(source) })
    });
    let compiled: Vec<Program> = compiled.into_iter().flatten().collect();
    if compiled.is_empty() {
        return Err(format!(
            "none of {} tests compiles; is a C compiler installed (cc)?",
            sources.len()
        ));
    }
    Ok(compiled)
}

/// Names and paths of the selected tests.
fn sources(suite: &Path, filters: &[String]) -> Result<Vec<(String, PathBuf)>, String> {
    let mut sources = Vec::new();
    collect(&suite.join(INTERFACES), "", &|stem| starts_with_digit(stem), &mut sources)?;
    for folder in OTHER_SUITES {
        let is_test = |stem: &str| !PARTS.contains(&stem);
        collect(&suite.join(folder), &format!("{folder}/"), &is_test, &mut sources)?;
    }
    let is_selected = |name: &str| filters.iter().any(|filter| name.starts_with(filter));
    sources.retain(|(name, _)| filters.is_empty() || is_selected(name));
    sources.sort();
    Ok(sources)
}

fn starts_with_digit(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_digit())
}

/// Adds the tests of a folder and of its subfolders, by names that begin with `prefix`.
fn collect(
    folder: &Path,
    prefix: &str,
    is_test: &dyn Fn(&str) -> bool,
    sources: &mut Vec<(String, PathBuf)>,
) -> Result<(), String> {
    for file in files(folder, "c")? {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if is_test(&stem) {
            sources.push((format!("{prefix}{stem}"), file));
        }
    }
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for inner in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = inner.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !SKIPPED_FOLDERS.contains(&name.as_str()) {
            collect(&inner, &format!("{prefix}{name}/"), is_test, sources)?;
        }
    }
    Ok(())
}

/// Whether a test of the folder `stress` runs until it receives SIGUSR1.
fn is_endless(source: &Path) -> bool {
    let is_stress = source.components().any(|part| part.as_os_str() == "stress");
    is_stress && fs::read_to_string(source).is_ok_and(|text| text.contains("SIGUSR1"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_of_which_nothing_compiles_is_an_error() {
        let home = std::env::temp_dir().join(format!("phalanx-posix-{}", std::process::id()));
        let tests = home.join(INTERFACES).join("sem_wait");
        for folder in [tests.clone(), home.join(OTHER_SUITES[0]), home.join(OTHER_SUITES[1])] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(tests.join("1-1.c"), "this is not C\n").unwrap();
        let options = Options { suite: home.clone(), filters: vec![], carriers: 2, jobs: None };
        let compiled = compile(&options, &home.join("target"));
        fs::remove_dir_all(&home).unwrap();
        assert!(compiled.is_err_and(|reason| reason.contains("none of 1 tests")));
    }
}
