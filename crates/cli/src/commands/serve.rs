//! `capataz serve`.

use capataz_daemon::{Config, Daemon, Overrides};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Outcome;
use crate::args::{LogFormat, ServeArgs};
use crate::display::paint::Tone;
use crate::display::table::Table;
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use crate::text::{counted, fill, words};

pub async fn serve(args: ServeArgs, out: &mut Output) -> Outcome {
    let overrides = Overrides {
        listen: args.listen.clone(),
        data_dir: args.data_dir.clone(),
        specs_dir: args.specs.clone(),
    };
    let config =
        Config::load(args.config.as_deref(), overrides).map_err(|error| Failure::invalid(chain(&error)))?;
    if args.check {
        return Ok(check(&config, out));
    }
    start_log(&args)?;
    let agents = config.agents.len();
    let specs = config.specs_dir.as_ref().map(|folder| folder.display().to_string());
    let daemon = Daemon::start(config).await.map_err(|error| Failure::failed(chain(&error)))?;
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
    daemon.wait(asked_to_stop()).await;
    Ok(Exit::Ok)
}

fn check(config: &Config, out: &mut Output) -> Exit {
    if out.json {
        let settings = config.describe().iter();
        let settings =
            settings.map(|(key, value, origin)| json!({ "key": key, "value": value, "from": origin }));
        out.document(&json!({ "settings": settings.collect::<Vec<_>>() }));
        return Exit::Ok;
    }
    let mut table = Table::new(words().serve.check_head);
    for (key, value, origin) in config.describe() {
        table.row([(key.clone(), Tone::Strong), (value.clone(), Tone::Plain), (origin.clone(), Tone::Faint)]);
    }
    out.line(&table.render(out.paint));
    Exit::Ok
}

/// Starts the log on stderr. Answers go to stdout.
fn start_log(args: &ServeArgs) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&args.log)
        .map_err(|error| Failure::invalid(fill(words().serve.bad_filter, &[&chain(&error)])))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only the first subscriber of a process counts, and only this function sets one.
    let _ = match args.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}

/// Returns at the first SIGINT or SIGTERM. A second signal ends the process at once.
pub async fn asked_to_stop() {
    next_signal().await;
    tracing::info!("{}", words().serve.stopping);
    tokio::spawn(async {
        next_signal().await;
        std::process::exit(Exit::Interrupted as i32);
    });
}

async fn next_signal() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without a handler, the default action of the signal ends the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
