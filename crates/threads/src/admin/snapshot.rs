//! The counters in the format of `/snapshot.json` of Phalanx programs, so that `phalanx top` shows them. A site is a stage,
//! a carrier a processor, and a thread an operation.
//!
//! # Safety
//!
//! `dladdr` fills a local structure with strings of the dynamic linker, which live as long as the library that they name.
//! A library that is unloaded meanwhile would invalidate them; programs do not unload code to which threads return.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use super::output::Output;
use crate::limits::SITES;
use crate::schedule::run_queue::{self, count};
use crate::stats::{self, BUCKETS, Counters};
use crate::thread::site::{self, Kind, OTHER, YIELDED};

/// The version of the format.
const VERSION: u32 = 1;

#[repr(C)]
struct Symbol {
    file: *const i8,
    base: usize,
    name: *const i8,
    address: usize,
}

unsafe extern "C" {
    fn dladdr(address: *const u8, symbol: *mut Symbol) -> i32;
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Writes a list with commas.
fn list<T>(output: &mut Output, items: impl Iterator<Item = T>, each: impl Fn(&mut Output, T)) {
    output.text("[");
    for (index, item) in items.enumerate() {
        if index > 0 {
            output.text(",");
        }
        each(output, item);
    }
    output.text("]");
}

/// The sites that have been used, in the order of their queues.
fn sites() -> impl Iterator<Item = usize> {
    (0..SITES).filter(|&site| is_special(site) || site::of(site).is_some())
}

fn is_special(site: usize) -> bool {
    [YIELDED, OTHER].contains(&(site as u8))
}

/// Writes the snapshot.
pub(super) fn write(output: &mut Output, uptime: u64) {
    output.print(format_args!(
        "{{\"version\":{VERSION},\"uptime_ns\":{uptime},\"driver\":\"epoll\",\"phase\":\"running\",\"stages\":"
    ));
    list(output, sites(), name);
    output.text(",\"time_buckets_ns\":");
    list(output, 0..BUCKETS - 1, |output, bucket| {
        output.print(format_args!("{}", 128_u64 << bucket))
    });
    output.text(",\"counters\":");
    let counters: [(&str, &str, u64); 6] = [
        ("threads_switches", "Switches to threads", run_queue::removed() as u64),
        ("threads_home_calls", "Calls that ran at home", get(&stats::HOME_CALLS)),
        ("threads_home_for_good", "Threads that stay at home", get(&stats::HOME_FOR_GOOD)),
        ("threads_sent_home", "Threads that waited for a blocked carrier", get(&stats::SENT_HOME)),
        ("threads_stolen", "Threads taken by other carriers", get(&stats::STOLEN)),
        ("threads_large_io_parts", "Parts sent without the thread", get(&stats::LARGE_PARTS)),
    ];
    list(output, counters.into_iter(), |output, (name, help, count)| {
        output.print(format_args!("{{\"name\":\"{name}\",\"help\":\"{help}\",\"count\":{count}}}"));
    });
    output.print(format_args!(
        ",\"gauges\":[{{\"name\":\"threads_blocked_carriers\",\"help\":\"Carriers that run one thread for long\",\
         \"value\":{}}}],\"processors\":",
        get(&stats::BLOCKED)
    ));
    list(output, 0..count(), carrier);
    output.text("}\n");
}

/// The name of a site: the library, the function or the offset, the depth of the stack, and the wait.
fn name(output: &mut Output, number: usize) {
    let Some(site) = site::of(number) else {
        let special = if number == usize::from(YIELDED) { "sched_yield" } else { "other sites" };
        return output.string(format_args!("{special}"));
    };
    let kind = match site.kind {
        Kind::Time => "time",
        Kind::Object => "lock",
        Kind::Readable => "read",
        Kind::Writable => "write",
    };
    let mut symbol =
        Symbol { file: core::ptr::null(), base: 0, name: core::ptr::null(), address: 0 };
    let place = site.address as *const u8;
    // Zero if no library contains the address.
    if unsafe { dladdr(place, &raw mut symbol) } == 0 || symbol.file.is_null() {
        return output.string(format_args!("{kind} {:#x}", site.address));
    }
    let text = |text: *const i8| unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("?");
    let file = text(symbol.file).rsplit('/').next().unwrap_or("?");
    if symbol.name.is_null() {
        let offset = site.address - symbol.base;
        return output.string(format_args!("{kind} {file}+{offset:#x} @{}", site.depth));
    }
    let offset = site.address - symbol.address;
    output.string(format_args!("{kind} {}+{offset:#x} {file} @{}", text(symbol.name), site.depth));
}

fn carrier(output: &mut Output, lane: usize) {
    let Some(counters) = stats::of(lane) else { return output.text("{}") };
    let busy: u64 = counters.sites.iter().map(|site| get(&site.run_ns)).sum();
    let value = |counter| get(counter);
    output.print(format_args!(
        "{{\"processor\":{lane},\"turns\":{},\"parks\":{},\"parked_ns\":{},\"busy_ns\":{busy},\"wakes_sent\":0,\
         \"system_calls\":{},\"operations\":0,\"memory_bytes\":0,\"arcs\":[],\"stages\":",
        run_queue::removed_from(lane),
        value(&counters.parks),
        value(&counters.parked_ns),
        value(&counters.polls),
    ));
    list(output, sites(), |output, number| {
        // Counted only for the first carrier, because waiting threads belong to no carrier.
        let waiting = if lane == 0 { stats::waiting(number) } else { 0 };
        stage(output, number, &counters.sites[number], waiting);
    });
    output.text("}");
}

fn stage(output: &mut Output, number: usize, site: &Counters, waiting: u64) {
    let ran = get(&site.ran);
    let cohorts = get(&site.cohorts);
    let mean = |sum: u64, count: u64| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
    output.text("{\"stage\":");
    name(output, number);
    output.print(format_args!(
        ",\"queue_length\":{},\"queue_length_mean\":{},\"queue_length_max\":{}",
        get(&site.queued),
        mean(get(&site.queued_sum), cohorts),
        get(&site.queued_max)
    ));
    let (wait, run) = (get(&site.wait_ns), get(&site.run_ns));
    // Threads start and end at home.
    let columns = [
        ("started", 0, 0, 0),
        ("resumed", ran, wait, get(&site.wait_max)),
        ("completed", 0, run, get(&site.run_max)),
    ];
    for (name, count, total, max) in columns {
        let mean = mean(total, ran);
        output.print(format_args!(
            ",\"{name}\":{{\"count\":{count},\"total_ns\":{total},\"mean_ns\":{mean},\"max_ns\":{max}}}"
        ));
    }
    for (name, buckets) in [("waits", &site.waits), ("runs", &site.runs)] {
        output.print(format_args!(",\"{name}\":{{\"p50_ns\":0.0,\"p99_ns\":0.0,\"buckets\":"));
        list(output, buckets.iter(), |output, count| output.print(format_args!("{}", get(count))));
        output.text("}");
    }
    let suspended = get(&site.suspended);
    output.print(format_args!(
        ",\"suspended\":{suspended},\"suspended_now\":{waiting},\"panicked\":0,\"cancelled\":0,\"rejected\":0,\"shed\":{{}},\
         \"cohorts\":{cohorts},\"cohort_mean\":{},\"cohort_max\":{},\"cohort_sizes\":",
        mean(ran, cohorts),
        get(&site.cohort_max)
    ));
    list(output, site.sizes.iter(), |output, count| output.print(format_args!("{}", get(count))));
    output.text("}");
}
