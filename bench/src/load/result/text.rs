//! The report as text.

use std::fmt;

use hdrhistogram::Histogram;

use super::report::Report;

/// Width of the longest bar in columns.
const MAX_BAR_WIDTH: usize = 40;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loop_ = match self.rate {
            Some(rate) => format!("{rate} requests/s offered"),
            None => "closed loop".to_owned(),
        };
        let deep = match self.pipeline {
            1 => String::new(),
            depth => format!(", pipelines of {depth}"),
        };
        match &self.tls {
            Some(tls) => writeln!(f, "{} ({tls})", self.url)?,
            None => writeln!(f, "{}", self.url)?,
        }
        writeln!(
            f,
            "{} connections{deep}, {loop_}, {:.1} s, {} driver\n",
            self.connections, self.seconds, self.driver
        )?;
        let per_second = self.bytes as f64 / self.seconds.max(1e-9);
        writeln!(
            f,
            "  requests   {:>10.0} /s   {} completed of {} offered",
            self.requests_per_second, self.completed, self.offered
        )?;
        writeln!(f, "  bytes      {:>10} /s", size(per_second))?;
        if self.resumed > 0 {
            writeln!(f, "  resumed    {:>10}      TLS sessions", self.resumed)?;
        }
        if self.backlog > 0 {
            writeln!(
                f,
                "  backlog    {:>10}      never started: the server is behind",
                self.backlog
            )?;
        }
        write!(
            f,
            "  processor  {:>10.2} µs   client, per request",
            self.client_cpu_us_per_request
        )?;
        match self.server_cpu_us_per_request {
            Some(server) => writeln!(f, "; server {server:.2} µs")?,
            None => writeln!(f)?,
        }
        match (&self.server_events_per_request, self.server_cpu_us_per_request) {
            (Some(events), _) => writeln!(f, "  hardware   {events} per request, server")?,
            (None, Some(_)) => writeln!(f, "  hardware   no hardware counters")?,
            (None, None) => (),
        }
        self.write_faults(f)?;
        let latencies = self.raw.as_ref().map(|raw| &raw.counts.histograms.latency.0);
        if let Some(histogram) = latencies.filter(|histogram| !histogram.is_empty()) {
            let latency = &self.latency;
            writeln!(
                f,
                "\n  latency{}",
                if self.rate.is_some() { " from the intended start" } else { "" }
            )?;
            for (name, value) in [
                ("p50", latency.p50_us),
                ("p90", latency.p90_us),
                ("p99", latency.p99_us),
                ("p99.9", latency.p999_us),
                ("p99.99", latency.p9999_us),
                ("max", latency.max_us),
            ] {
                writeln!(f, "    {name:<7}{:>10}", time(value))?;
            }
            writeln!(f)?;
            bars(f, histogram)?;
        }
        Ok(())
    }
}

impl Report {
    fn write_faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, errors) = (&self.status, &self.errors);
        let counts = [
            ("3xx", status.redirection),
            ("4xx", status.client_error),
            ("5xx", status.server_error),
            ("other status", status.other),
            ("connect", errors.connect),
            ("timeout", errors.timeout),
            ("reset", errors.reset),
            ("closed early", errors.closed),
            ("malformed", errors.malformed),
            ("starved", self.starved),
        ];
        let faults: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        match faults[..] {
            [] => Ok(()),
            _ => writeln!(f, "  faults     {}", faults.join(", ")),
        }
    }
}

/// One line per factor of two, or finer lines if those would be few.
fn bars(f: &mut fmt::Formatter<'_>, histogram: &Histogram<u64>) -> fmt::Result {
    let (low, high) = (histogram.value_at_quantile(0.001).max(1) as f64, histogram.max() as f64);
    let steps_per_doubling: f64 = if high / low < 32.0 { 3.0 } else { 1.0 };
    let step = (1.0 / steps_per_doubling).exp2();
    let mut edges = vec![low * step];
    while edges[edges.len() - 1] < high {
        edges.push(edges[edges.len() - 1] * step);
    }
    let mut from = 0;
    let mut lines = Vec::new();
    for edge in edges {
        let to = edge as u64;
        lines.push((edge, histogram.count_between(from, to)));
        from = to + 1;
    }
    let most = lines.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    for (edge, count) in lines {
        let eighths = (count as f64 / most as f64 * (MAX_BAR_WIDTH * 8) as f64).ceil() as usize;
        writeln!(f, "  <{:>9} {:>10}  {}", time(edge / 1e3), count, bar(eighths))?;
    }
    Ok(())
}

/// A bar of the given number of eighths of a column.
fn bar(eighths: usize) -> String {
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]);
    bar
}

/// A time given in microseconds, in a suitable unit.
fn time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} µs"),
        ..1e6 => format!("{:.2} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

/// A size in a suitable unit.
fn size(bytes: f64) -> String {
    match bytes {
        ..1024.0 => format!("{bytes:.0} B"),
        ..1_048_576.0 => format!("{:.1} KiB", bytes / 1024.0),
        ..1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Options;

    #[test]
    fn units_and_bars() {
        assert_eq!((time(12.3), time(1234.0)), ("12 µs".into(), "1.23 ms".into()));
        assert_eq!((size(512.0), size(1536.0)), ("512 B".into(), "1.5 KiB".into()));
        assert_eq!((bar(0), bar(1), bar(17)), (String::new(), "▏".into(), "██▏".into()));
    }

    #[test]
    fn missing_hardware_counters_are_named() {
        for server_cpu_us_per_request in [None, Some(8.0)] {
            let options = Options::new("http://127.0.0.1/".parse().unwrap());
            let report = Report { server_cpu_us_per_request, ..Report::new(&options, "poll") };
            let said = report.to_string().contains("no hardware counters");
            assert_eq!(said, server_cpu_us_per_request.is_some());
        }
    }

    #[test]
    fn every_answer_is_in_a_bar() {
        struct Bars(Histogram<u64>);
        impl fmt::Display for Bars {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                bars(f, &self.0)
            }
        }
        let mut histogram = Histogram::new(3).unwrap();
        for value in [1, 20_000, 21_000, 25_000, 90_000, 7_000_000] {
            histogram.record(value).unwrap();
        }
        let text = Bars(histogram).to_string();
        let count = |line: &str| line.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap();
        assert_eq!(
            text.lines().map(|line| count(&line.replacen('<', "< ", 1))).sum::<u64>(),
            6,
            "{text}"
        );
    }
}
