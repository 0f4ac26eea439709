//! Drawing the screen.

use phalanx::metrics::human::{cohorts, count, percent, time};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};

use super::app::App;
use super::placement::placement;
use super::rows::{self, COLUMNS, Column};

const HELP: &str = "\
 s, S, ←, →   sort by next, previous column        w  wavefront order
 r            reverse the order                    a  sum over processors
 p, space     pause                                +, -  change the interval
 j, k, ↓, ↑   scroll                               q  quit

 QUEUE  mean queue length at a cohort's start       SIZE  mean cohort size
 OPS/s  operations started or resumed               SUSP  currently suspended
 WAIT   queueing delay: mean, p99, max
 RUN    time of an operation between suspensions: mean, p99, max
 SHED   rejected operations per second              BUSY  share of the time

 Rates, means and p99 are of the last interval, max since the start.
 p99 and the max of RUN use the mean of a cohort for each operation.";

pub(super) fn draw(app: &App, frame: &mut Frame<'_>) {
    let heading = heading(app);
    let height = heading.len().max(2) as u16;
    let [head, table, foot] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(heading), head);
    lines(app, frame, table);
    frame.render_widget(Paragraph::new(footer(app)), foot);
    if app.help {
        let area = frame.area();
        let (width, height) = (area.width.min(80), area.height.min(16));
        let x = (area.width - width) / 2;
        let y = (area.height - height) / 2;
        let area = Rect { x, y, width, height };
        frame.render_widget(Clear, area);
        let block = Block::bordered().title(" phalanx top ");
        frame.render_widget(Paragraph::new(HELP).block(block), area);
    }
}

fn heading(app: &App) -> Vec<Line<'static>> {
    let mut first = vec![Span::from(format!("phalanx {}", app.name)).bold()];
    if let Some(snapshot) = &app.latest {
        let uptime = time(snapshot.uptime_ns as f64);
        first.push(format!("  up {uptime}  {}  {}", snapshot.driver, snapshot.phase).into());
        if let Some(found) = snapshot.cohort_size_range() {
            first.push(format!("  {}", cohorts(found)).into());
        }
    }
    if app.paused {
        first.push("  paused".fg(Color::Yellow).bold());
    }
    let Some(interval) = &app.interval else { return vec![first.into()] };
    let total = interval.total();
    let sum =
        |figure: fn(&phalanx::metrics::StageInterval) -> u64| total.stages.iter().map(figure).sum();
    let rate = |n: u64| count(n as f64 / interval.seconds.max(1e-9));
    let (ran, suspended, shed): (u64, u64, u64) =
        (sum(|s| s.ran), sum(|s| s.suspended_now), sum(|s| s.shed));
    let mut second = vec![Span::from(format!(
        "{} operations/s  {} busy, {} asleep of {}  {} suspended",
        rate(ran),
        percent(total.utilisation),
        percent(total.asleep),
        interval.processors.len(),
        count(suspended as f64),
    ))];
    if shed > 0 {
        second.push(format!("  shedding {}/s", rate(shed)).fg(Color::Red).bold());
    }
    let placement = app.latest.as_ref().map(placement).unwrap_or_default();
    let lines = [first.into(), second.into()].into_iter();
    lines.chain(placement.into_iter().map(Line::from)).collect()
}

fn lines(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let columns: Vec<(usize, &Column)> =
        COLUMNS.iter().enumerate().filter(|(_, column)| column.from_width <= area.width).collect();
    let title = |(index, column): &(usize, &Column)| {
        let style = match app.column == Some(*index) {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        Cell::from(Line::from(column.title).right_aligned()).style(style)
    };
    let processor_title = Cell::from(Line::from("P").right_aligned());
    let titles =
        [Cell::from("STAGE"), processor_title].into_iter().chain(columns.iter().map(title));
    let titles = Row::new(titles).style(Style::new().bold().fg(Color::Cyan));
    let rows = app.rows();
    // Keep the column of names as narrow as the names: figures far from their names are hard to read.
    let figures: u16 = 3 + columns.iter().map(|(_, column)| column.width + 1).sum::<u16>();
    let longest_name = rows.iter().map(|row| row.stage.chars().count()).max().unwrap_or(0);
    let name = (longest_name as u16).clamp(11, area.width.saturating_sub(figures).max(11));
    let body = rows.into_iter().skip(app.scrolled).map(|row| line(&row, &columns));
    let widths = [Constraint::Length(name), Constraint::Length(2)];
    let widths = widths.into_iter().chain(columns.iter().map(|(_, c)| Constraint::Length(c.width)));
    frame.render_widget(Table::new(body, widths).header(titles).column_spacing(1), area);
}

fn line(row: &rows::Row, columns: &[(usize, &Column)]) -> Row<'static> {
    let processor = row.processor.map_or("*".to_owned(), |index| index.to_string());
    let cells = columns
        .iter()
        .map(|(_, column)| Cell::from(Line::from((column.cell)(&row.figures)).right_aligned()));
    let name = Cell::from(row.stage.clone());
    let first = [name, Cell::from(Line::from(processor).right_aligned())];
    let figures = &row.figures;
    let style = match figures.utilisation() {
        _ if figures.shed > 0 => Style::new().fg(Color::Red).bold(),
        _ if figures.ran == 0 => Style::new().dim(),
        busy if busy > 0.5 => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    Row::new(first.into_iter().chain(cells)).style(style)
}

fn footer(app: &App) -> Line<'static> {
    match &app.failure {
        Some(failure) => Span::from(failure.clone()).fg(Color::Red).into(),
        None => {
            let order = app.column.map_or("wavefront", |column| COLUMNS[column].title);
            let keys = format!(
                "q quit  s sort ({order})  p pause  +/- every {} s  a sum  ? help",
                app.interval_seconds()
            );
            Span::from(keys).dim().into()
        }
    }
}
