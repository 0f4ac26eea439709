//! Costs of single functions of the C library, on one core.

use std::process::Stdio;

use super::arm::{Arm, Setting};
use super::report::Row;
use crate::error::Error;
use crate::measure::measure_setting;
use crate::system::cores::spawn;
use crate::system::interrupted;

/// The title, the program, and its repetitions in full and quick runs.
const PROGRAMS: [(&str, &str, usize, usize); 3] = [
    ("hand-over by a condition, ns", "pingpong", 200_000, 2_000),
    ("mutex, ns", "mutex", 10_000_000, 10_000),
    ("create and join, ns", "create", 5_000, 20),
];

pub(super) fn run(setting: &Setting, rows: &mut Vec<Row>) -> Result<(), Error> {
    for (title, program, full, quick) in PROGRAMS {
        let count = setting.count(full, quick);
        let turn = |arm: usize, _| once(setting, Arm::ALL[arm], program, count);
        let turns = (Arm::ALL.len(), setting.rounds);
        measure_setting(title, turns, turn, |costs| rows.extend(Row::of(title, &costs)))?;
    }
    Ok(())
}

/// Nanoseconds of processor time per repetition.
fn once(setting: &Setting, arm: Arm, program: &str, count: usize) -> Result<f64, Error> {
    interrupted()?;
    let mut command = arm.command(&setting.phalanx, 1, &setting.programs);
    command.args([program, &count.to_string()]).stdout(Stdio::piped()).stdin(Stdio::null());
    let output = spawn(&setting.cores.server[..1], &mut command)?.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = || Error::Process(format!("{program} ({}): {}", arm.name(), output.status));
    text.trim().parse().map_err(|_| failed())
}
