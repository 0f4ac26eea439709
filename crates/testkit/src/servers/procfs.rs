//! Process information from /proc.

use std::fs;
use std::time::Duration;

/// Number of open descriptors.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// User and system time of all threads.
pub fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name in parentheses may contain any character; utime and stime are the 12th and 13th fields after it.
    let fields = &stat[stat.rfind(')').unwrap() + 1..];
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(11).take(2).map(|text| text.parse().unwrap()).collect();
    Duration::from_secs_f64(
        (ticks[0] + ticks[1]) as f64 / rustix::param::clock_ticks_per_second() as f64,
    )
}

/// Anonymous resident memory in bytes.
pub fn anonymous_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Resident memory in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}
