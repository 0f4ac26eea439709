//! `cargo xtask test`: the tests as `cargo test` runs them, but as many programs at once as there are cores.
//!
//! At the end of most test programs a single test runs, or waits, while the other cores are idle.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::artifacts::{self, Program};
use crate::parallel;
use crate::task::{Outcome, target};

/// The programs that take longest, which start first: otherwise one of them might run alone at the end.
const LONGEST_RUNNING: &[&str] =
    &["phalanx-bench it", "phalanx-broker it", "phalanx-cli it", "phalanx-web it", "phalanx it"];
/// Threads of all test programs together, for each core. Most tests of servers and of the runtime wait rather than
/// compute.
const THREADS_PER_CORE: usize = 4;

/// Builds the test programs as `cargo test` with these arguments does, and runs all of them with `filters`.
///
/// The output of a program is printed when it has ended, and that of failed ones once more at the end. While a program
/// runs, its output is in `target/test-output`.
pub(crate) fn run(root: &Path, arguments: Vec<String>, filters: Vec<String>) -> Outcome {
    let (arguments, filters) = &split(arguments, filters);
    let mut programs = artifacts::build(root, arguments)?;
    if programs.is_empty() {
        return Err("there is no test program; see the arguments of `cargo test`".into());
    }
    let rank = |program: &Program| LONGEST_RUNNING.iter().position(|name| *name == program.name);
    programs.sort_by_key(|program| rank(program).unwrap_or(LONGEST_RUNNING.len()));
    let libraries = &libraries(root)?;
    let folder = target(root).join("test-output");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let output = |of: &Program| folder.join(format!("{}.log", of.name.replace(' ', "-")));
    let passed = parallel::map(&programs, parallel::cores(), |program| {
        let run = one(program, filters, libraries, &output(program));
        print(program, &run, &output(program))
    });
    let failed = programs.iter().zip(passed).filter(|(_, passed)| !passed);
    let failed: Vec<_> = failed.map(|(program, _)| program).collect();
    for program in &failed {
        println!("\n--- the failures of {}, once more", program.name);
        let output = fs::read(output(program)).unwrap_or_default();
        println!("{}", failures(&String::from_utf8_lossy(&output)));
    }
    let count = programs.len();
    println!("\n{} of {count} test programs passed", count - failed.len());
    for program in &failed {
        println!("failed: {}", program.name);
    }
    Ok(failed.is_empty())
}

/// The arguments of `cargo test`, by default `--workspace`, and those of test programs, which follow `--`. Clap finds `--`
/// only at the beginning, because the former may begin with a hyphen.
pub(crate) fn split(
    mut arguments: Vec<String>,
    mut filters: Vec<String>,
) -> (Vec<String>, Vec<String>) {
    if let Some(at) = arguments.iter().position(|argument| argument == "--") {
        filters = arguments.split_off(at).split_off(1);
    }
    if arguments.is_empty() {
        arguments.push("--workspace".to_owned());
    }
    (arguments, filters)
}

/// The value of `LD_LIBRARY_PATH` for the programs: the tests of a procedural macro are linked with the compiler's own
/// libraries. Cargo sets it as well, but not for this program if it is started without cargo.
fn libraries(root: &Path) -> Result<OsString, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir"]).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    if !output.status.success() {
        return Err("`rustc --print target-libdir` failed".into());
    }
    let mut folders = OsString::from(String::from_utf8_lossy(&output.stdout).trim());
    if let Some(inherited) =
        std::env::var_os("LD_LIBRARY_PATH").filter(|inherited| !inherited.is_empty())
    {
        folders.push(":");
        folders.push(inherited);
    }
    Ok(folders)
}

/// Runs a program with its output in a file.
fn one(
    program: &Program,
    filters: &[String],
    libraries: &OsStr,
    output: &Path,
) -> io::Result<(ExitStatus, Duration)> {
    let file = File::create(output)?;
    let start = Instant::now();
    let mut command = Command::new(&program.path);
    command.args(filters).current_dir(&program.folder).stdin(Stdio::null());
    command.stdout(file.try_clone()?).stderr(file);
    // As cargo sets it.
    command.env("CARGO_MANIFEST_DIR", &program.folder).env("LD_LIBRARY_PATH", libraries);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", THREADS_PER_CORE.to_string());
    }
    Ok((command.status()?, start.elapsed()))
}

/// Prints the output of a program at once, and returns whether it passed.
fn print(program: &Program, run: &io::Result<(ExitStatus, Duration)>, output: &Path) -> bool {
    let mut text =
        format!("\n     Running {} ({})\n", program.name, program.path.display()).into_bytes();
    text.extend(fs::read(output).unwrap_or_default());
    let (end, passed) = match run {
        Ok((status, time)) => {
            (format!("{status} after {:.1} s", time.as_secs_f64()), status.success())
        }
        Err(error) => (error.to_string(), false),
    };
    text.extend(format!("     Ended {}: {end}\n", program.name).bytes());
    // If nobody reads it, the result still counts.
    let _ = io::stdout().lock().write_all(&text);
    passed
}

/// The last part of a test program's output: from the output of the failed tests on, or the last lines if the program
/// was killed before it printed them.
fn failures(output: &str) -> &str {
    const LINES: usize = 60;
    if let Some(start) = output.find("\nfailures:\n") {
        return &output[start + 1..];
    }
    let before = output.rmatch_indices('\n').nth(LINES);
    before.map_or(output, |(at, _)| &output[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(
        name: &str,
        script: &str,
        folder: &Path,
    ) -> (io::Result<(ExitStatus, Duration)>, String) {
        let path = "/bin/sh".into();
        let program = Program { name: name.to_owned(), folder: folder.to_owned(), path };
        let output = folder.join(name);
        let libraries = OsStr::new("/libraries");
        let run = one(&program, &["-c".to_owned(), script.to_owned()], libraries, &output);
        assert_eq!(print(&program, &run, &output), run.as_ref().unwrap().0.success());
        (run, fs::read_to_string(output).unwrap())
    }

    #[test]
    fn a_program_runs_in_the_folder_of_its_package() {
        let folder = std::env::temp_dir().join(format!("xtask-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (run, output) = shell(
            "good",
            "pwd; echo $CARGO_MANIFEST_DIR; echo $LD_LIBRARY_PATH; echo error >&2",
            &folder,
        );
        assert!(run.unwrap().0.success());
        assert_eq!(output, format!("{0}\n{0}\n/libraries\nerror\n", folder.display()));
        let (run, _) = shell("bad", "exit 3", &folder);
        assert_eq!(run.unwrap().0.code(), Some(3));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_failures_are_the_end_of_the_output() {
        let output = "test a ... ok\n\nfailures:\n\n---- b stdout ----\nwhy\n";
        assert_eq!(failures(output), "failures:\n\n---- b stdout ----\nwhy\n");
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(failures(&long).starts_with("40\n"), "{}", failures(&long));
        assert_eq!(failures("killed\n"), "killed\n");
    }
}
