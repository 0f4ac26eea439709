//! Processor times from files under `/proc`.

use std::fs;
use std::io;

/// Seconds that the threads of these processes have run: the first number of `/proc/PID/task/*/schedstat`,
/// summed. Includes time in the kernel, excludes threads that have exited.
pub(crate) fn run_time(processes: &[u32]) -> io::Result<f64> {
    let mut total = 0;
    for process in processes {
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            match fs::read_to_string(thread?.path().join("schedstat")) {
                Ok(text) => total += parse_schedstat(&text).ok_or_else(|| bad("schedstat"))?,
                // Exited since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                Err(error) if error.raw_os_error() == Some(ESRCH) => (),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(total as f64 / 1e9)
}

const ESRCH: i32 = 3;

/// A process and its descendants, from `/proc/PID/task/*/children`.
pub(crate) fn family(process: u32) -> io::Result<Vec<u32>> {
    let mut members = vec![process];
    let mut at = 0;
    while let Some(&member) = members.get(at) {
        at += 1;
        let threads = match fs::read_dir(format!("/proc/{member}/task")) {
            Err(error) if member == process => return Err(error),
            Err(_) => continue,
            Ok(threads) => threads,
        };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            members
                .extend(children.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    Ok(members)
}

/// Seconds that the cores of these numbers were not idle, from `/proc/stat`, including time stolen by other guests.
/// The resolution is 10 ms.
pub(crate) fn busy_time(cores: &[usize]) -> io::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let times = cores.iter().map(|core| parse_stat(&text, *core));
    times.sum::<Option<f64>>().ok_or_else(|| bad("stat"))
}

/// Seconds that this process and its waited-for children have run, from `/proc/self/stat`.
pub(crate) fn own_time() -> io::Result<f64> {
    parse_own(&fs::read_to_string("/proc/self/stat")?).ok_or_else(|| bad("self/stat"))
}

/// Seconds that these processes have run outside the kernel and in it, from `/proc/PID/stat`. Some kernels sample
/// the two: their sum is exact, their shares only over long times.
pub(crate) fn user_and_system(processes: &[u32]) -> io::Result<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for process in processes {
        let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let (user, system) = parse_user_and_system(&text).ok_or_else(|| bad("stat"))?;
        sum = (sum.0 + user, sum.1 + system);
    }
    Ok(sum)
}

/// The resident memory of these processes, in bytes, from `/proc/PID/status`. Pages that they share count for each.
pub(crate) fn resident_bytes(processes: &[u32]) -> io::Result<u64> {
    let mut sum = 0;
    for process in processes {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        sum += parse_resident(&text).ok_or_else(|| bad("status"))?;
    }
    Ok(sum)
}

fn bad(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc has no {file} that can be read"))
}

fn parse_resident(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?)
}

fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn parse_stat(text: &str, core: usize) -> Option<f64> {
    let name = format!("cpu{core}");
    let mut fields = text
        .lines()
        .map(str::split_ascii_whitespace)
        .find_map(|mut fields| (fields.next() == Some(&name)).then_some(fields))?;
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (user, nice, system, _idle, _wait) = (next()?, next()?, next()?, next()?, next()?);
    let (interrupts, soft, stolen) = (next()?, next()?, next()?);
    Some((user + nice + system + interrupts + soft + stolen) as f64 / ticks())
}

fn parse_own(text: &str) -> Option<f64> {
    Some(process_times(text)?.iter().sum())
}

fn parse_user_and_system(text: &str) -> Option<(f64, f64)> {
    let [user, system, ..] = process_times(text)?;
    Some((user, system))
}

/// User and system seconds of the process, and of its waited-for children.
fn process_times(text: &str) -> Option<[f64; 4]> {
    // The second field, the program's name, may contain any character; the third follows its bracket.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || Some(fields.next()?.parse::<u64>().ok()? as f64 / ticks());
    Some([next()?, next()?, next()?, next()?])
}

fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_and_stat() {
        assert_eq!(parse_schedstat("123456789 42 7\n"), Some(123_456_789));
        assert_eq!(parse_schedstat(""), None);
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 99 99 4 5 6 0 0\ncpu10 0 0 100 0 0 0 0 0 0 0\n";
        assert_eq!(parse_stat(stat, 0), Some(21.0 / ticks()));
        assert_eq!(parse_stat(stat, 10), Some(100.0 / ticks()));
        assert_eq!(parse_stat(stat, 1), None);
        let own = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 10 20 30 40 20 0 1\n";
        assert!((parse_own(own).unwrap() - 100.0 / ticks()).abs() < 1e-9);
        assert_eq!(parse_user_and_system(own), Some((10.0 / ticks(), 20.0 / ticks())));
    }

    #[test]
    fn resident_memory() {
        assert_eq!(
            parse_resident("Name:\ta\nVmRSS:\t    1680 kB\nVmSwap: 0 kB\n"),
            Some(1_720_320)
        );
        assert_eq!(parse_resident("Name:\ta\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_spins_has_run() {
        // Not this process: its threads exit during the test, and their times are lost.
        let mut child =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let before = run_time(&[child.id()]).unwrap();
        let runs = (0..60_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            run_time(&[child.id()]).unwrap() > before
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(runs);
        assert!(busy_time(&[0]).unwrap() > 0.0);
        assert!(run_time(&[u32::MAX]).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn children_belong_to_the_family() {
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let members = family(std::process::id()).unwrap();
        let _ = (child.kill(), child.wait());
        assert!(members.contains(&child.id()));
    }
}
