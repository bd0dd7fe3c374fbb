//! `capataz serve`.

use capataz_daemon::{Config, Daemon, Given, Overrides, Own, ShimCommand, Trace, own_spans};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{Outcome, needs};
use crate::args::{LogFormat, ServeArgs};
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use crate::watch::keys;
use capataz_display::paint::{Paint, Tone};
use capataz_display::table::Table;
use capataz_display::words::messages::setting;
use capataz_display::words::{counted, fill, words};

pub async fn serve(args: ServeArgs, out: &mut Output) -> Outcome {
    let overrides = Overrides {
        listen: args.listen.clone(),
        data_dir: args.data_dir.clone(),
        specs_dir: args.specs.clone(),
    };
    let mut config = Config::load(args.config.as_deref(), overrides).map_err(Failure::of_config)?;
    if args.check {
        return Ok(check(&config, out));
    }
    let own = own_spans(&config).map_err(|error| Failure::failed(chain(&error)))?;
    start_log(&args, own.as_ref(), out.error_paint())?;
    let mut shim = ShimCommand::default();
    shim.args.extend(Given::take_over().arguments());
    config.shim = Some(shim);
    config.trace = args.trace.map(|file| Trace { file, limit: args.trace_limit });
    let agents = config.agents.len();
    let specs_dir = config.specs_dir.clone();
    let specs = specs_dir.as_ref().map(|folder| folder.display().to_string());
    let stop = asked_to_stop_by(HangUp::IsHeardElsewhere)?;
    let hang_ups = hang_ups()?;
    let mut daemon =
        Daemon::start(config).await.map_err(|error| Failure::of_start(&error, specs_dir.as_deref()))?;
    daemon.follow_config(hang_ups);
    let texts = &words().serve;
    if out.json {
        let address = daemon.address().to_string();
        let data_dir = daemon.data_dir().display().to_string();
        out.record(&json!({
            "address": address,
            "data_dir": data_dir,
            "agents": agents,
            "specs_dir": specs,
        }));
    } else {
        out.line(&out.paint.text(Tone::Strong, &fill(texts.listening, &[&daemon.address().to_string()])));
        out.line(&fill(texts.data, &[&daemon.data_dir().display().to_string()]));
        if let Some(specs) = specs {
            out.line(&fill(texts.specs, &[&specs]));
        }
        out.line(&counted(agents as u64, texts.agents_one, texts.agents_many));
        out.flush();
    }
    daemon.wait(stop).await;
    if let Some(own) = own {
        // It blocks until they are sent.
        let _ = tokio::task::spawn_blocking(|| own.stop()).await;
    }
    Ok(Exit::Ok)
}

/// Prints the settings, and what they need and is not there.
#[expect(clippy::disallowed_methods, reason = "commands get a part of the daemon's environment")]
fn check(config: &Config, out: &mut Output) -> Exit {
    let needs = config.needs(|name| std::env::var_os(name));
    let exit = if needs.is_empty() { Exit::Ok } else { Exit::Invalid };
    if out.json {
        let settings = config.describe().iter();
        let settings =
            settings.map(|(key, value, origin)| json!({ "key": key, "value": value, "from": origin }));
        let problems = needs::to_json(&needs);
        out.document(&json!({ "settings": settings.collect::<Vec<_>>(), "problems": problems }));
        return exit;
    }
    let mut table = Table::new(words().serve.check_head);
    for (key, value, origin) in config.describe() {
        let (value, origin) = (setting(value).into_owned(), setting(origin).into_owned());
        table.row([(key.clone(), Tone::Strong), (value, Tone::Plain), (origin, Tone::Faint)]);
    }
    out.line(&table.render(out.paint));
    if !needs.is_empty() {
        out.flush();
        needs::tell(&needs, out);
    }
    exit
}

/// Starts the log on stderr, and what sends the daemon's own spans. Answers go to stdout.
fn start_log(args: &ServeArgs, own: Option<&Own>, paint: Paint) -> Result<(), Failure> {
    let filter = filter(&args.log)
        .map_err(|error| Failure::invalid(fill(words().serve.bad_filter, &[&chain(&error)])))?;
    // A terminal that is gone takes no lines; the daemon goes on without.
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(paint.is_on())
        .log_internal_errors(false);
    // Only the first subscriber of a process counts, and this is the only place that sets one.
    let _ = match args.log_format {
        LogFormat::Text => {
            let log = tracing_subscriber::registry().with(layer.with_filter(filter));
            log.with(own.map(Own::layer)).try_init()
        }
        LogFormat::Json => {
            let log = tracing_subscriber::registry().with(layer.json().with_filter(filter));
            log.with(own.map(Own::layer)).try_init()
        }
    };
    Ok(())
}

/// A level, or levels by module: `capataz=debug,info`. Where nothing is said, errors are logged.
fn filter(text: &str) -> Result<Targets, ParseError> {
    let directives: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if directives.is_empty() {
        return Ok(Targets::new().with_default(LevelFilter::ERROR));
    }
    directives.join(",").parse()
}

/// What SIGHUP means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HangUp {
    /// The end: the terminal is gone.
    Ends,
    /// Something that somebody else hears.
    IsHeardElsewhere,
}

fn heard(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::failed(fill(words().serve.no_signals, &[&error.to_string()])))
}

/// Whether this process was started to outlive its terminal, as `nohup` starts it. It is asked before anybody hears the signal.
fn ignores_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first bit is that of the first signal, which is SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Something comes for each SIGHUP, from this call on. Those that come faster than they are heeded are one.
fn hang_ups() -> Result<mpsc::Receiver<()>, Failure> {
    let mut hang_up = heard(SignalKind::hangup())?;
    let (sender, hang_ups) = mpsc::channel(1);
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            let _ = sender.try_send(());
        }
    });
    Ok(hang_ups)
}

/// What ends at the first SIGINT, SIGTERM or SIGHUP. The second SIGINT ends the process at once: a person has pressed Ctrl-C
/// again. A repeated SIGTERM does not: two programs may ask for the same end.
///
/// The signals are heard from this call on, whoever awaits the end: a daemon that listens before it hears them is killed by
/// one where it should drain. A signal that comes while the daemon starts makes it stop as soon as it has started.
pub fn asked_to_stop() -> Result<impl Future<Output = ()>, Failure> {
    asked_to_stop_by(HangUp::Ends)
}

fn asked_to_stop_by(hang_up: HangUp) -> Result<impl Future<Output = ()>, Failure> {
    let (mut interrupt, mut terminate) = (heard(SignalKind::interrupt())?, heard(SignalKind::terminate())?);
    let mut hung_up = match hang_up {
        HangUp::Ends if !ignores_hang_ups() => Some(heard(SignalKind::hangup())?),
        HangUp::Ends | HangUp::IsHeardElsewhere => None,
    };
    keys::leave_the_end();
    let (asked, stop) = oneshot::channel();
    tokio::spawn(async move {
        let (mut asked, mut was_interrupted) = (Some(asked), false);
        loop {
            let hang_up = async {
                match &mut hung_up {
                    Some(hung_up) => hung_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            let is_interrupt = tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => false,
                _ = hang_up => false,
            };
            if is_interrupt && std::mem::replace(&mut was_interrupted, true) {
                keys::give_back();
                std::process::exit(Exit::Interrupted as i32);
            }
            if let Some(asked) = asked.take() {
                tracing::info!("{}", words().serve.stopping);
                // Whoever waited for it may be gone, and so is the daemon then.
                let _ = asked.send(());
            }
        }
    });
    Ok(async {
        // It is answered before its task ends.
        let _ = stop.await;
    })
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::filter;

    #[test]
    fn a_filter_is_a_level_or_levels_by_module() {
        let plain = filter("info").unwrap();
        assert!(plain.would_enable("capataz_daemon::services", &Level::INFO));
        assert!(!plain.would_enable("capataz_daemon::services", &Level::DEBUG));
        let by_module = filter("capataz_daemon=debug, warn,").unwrap();
        assert!(by_module.would_enable("capataz_daemon::services", &Level::DEBUG));
        assert!(by_module.would_enable("h2", &Level::WARN));
        assert!(!by_module.would_enable("h2", &Level::INFO));
    }

    #[test]
    fn an_empty_filter_leaves_errors_and_a_wrong_one_is_refused() {
        let empty = filter("").unwrap();
        assert!(empty.would_enable("h2", &Level::ERROR));
        assert!(!empty.would_enable("h2", &Level::WARN));
        assert!(filter("capataz=loud").is_err());
    }
}
