"""No block of a page is shown without being run, or the reason stands here."""

from __future__ import annotations

from tests.repo.docs.blocks import ROOT, blocks, pages
from tests.repo.docs.recipe import parts
from tests.support.cases import each

DOCS = "tests/repo/docs/test_docs.py::"
FIRST = DOCS + "test_the_first_step_on_a_laptop_works_as_shown"
SECOND = DOCS + "test_the_second_step_runs_on_azurite_and_postgresql"
TIMERS = DOCS + "test_a_function_app_as_shown_has_the_functions_of_the_page"
QUEUE_MODE = "tests/repo/docs/test_queue_mode.py::test_the_mode_and_the_host_as_shown_make_two_functions"
ACCEPTED = DOCS + "test_every_configuration_shown_is_accepted"
HTTP = "tests/repo/docs/test_http.py::"
ONCE = "tests/repo/docs/test_effectively_once.py::"
RELAYS = "tests/repo/docs/test_relays.py::"
EXAMPLES = "tests/repo/docs/test_store_examples.py::"
NO_CLIENT = "not run: needs a client library that is not installed here, and an account"
DRAWING = "not run: a drawing"
NO_CLOUD = "not run: changes a machine, a cluster or a subscription; names in it are held by test_deployment.py::"
NO_AZURE = "not run: it needs a database server in Azure"

RECIPES = "tests/repo/docs/test_recipes.py::"
FROM = "tests/repo/docs/test_recipes_databases.py::"
TO = "tests/repo/docs/test_recipes_targets.py::"
EVERY_ONE = {
    "docs/cli.md": "tests/repo/docs/test_cli_page.py::test_each_commands_example_is_one_that_it_takes",
    "docs/incidents.md": "tests/repo/docs/test_incidents.py::test_the_session_prints_what_is_shown",
}
"""Pages of which one test runs every block."""
EVERY_ONE |= {
    f"docs/recipes/{page}.md": test
    for page, test in {
        "replica": RECIPES + "test_a_replica_is_the_table",
        "fan-out": RECIPES + "test_of_two_pollers_one_is_paused_and_the_other_goes_on",
        "email-once": RECIPES + "test_each_paid_order_gets_one_mail",
        "http": TO + "test_an_endpoint_refuses_one_event_without_the_others",
        "own-target": TO + "test_ten_lines_reach_kafka_and_redis",
    }.items()
}

SERVERS = FROM + "test_a_servers_user_reads_what_its_section_makes"
PARSED = FROM + "test_what_no_server_runs_here_is_loaded_and_parsed"
OUTBOX = RECIPES + "test_an_outbox_sends_what_was_committed"
BROKER = TO + "test_rows_reach_a_broker_by_microsofts_clients"
COPY = TO + "test_a_copy_has_each_row_and_no_older_one"
SECTIONS: dict[str, dict[str, str]] = {
    "docs/recipes/databases.md": {
        "The poller": SERVERS,
        "PostgreSQL": SERVERS,
        "MariaDB and MySQL": SERVERS,
        "SQL Server and Azure SQL": PARSED,
        "SQLite": FROM + "test_a_sqlite_file_is_read_as_shown",
        "Run it": SERVERS,
    },
    "docs/recipes/files.md": {
        "The table and the source": TO + "test_files_hold_each_row_once",
        "Blob Storage": TO + "test_files_hold_each_row_once",
        "A pipe or a log": TO + "test_rows_are_lines_of_a_file",
    },
    "docs/recipes/from-another-trigger.md": {
        "The poller": RECIPES + "test_a_watermark_is_gone_on_from_with_an_overlap",
        "A timer with a watermark table": RECIPES + "test_a_watermark_is_gone_on_from_with_an_overlap",
        "azure-functions-db": RECIPES + "test_an_imported_poller_goes_on_at_the_next_row",
        "Azure's SQL trigger": PARSED,
        "Azure Database for MySQL's trigger": FROM + "test_the_column_of_azures_trigger_is_followed_without_a_gap",
    },
    "docs/recipes/outbox.md": {
        **dict.fromkeys(["The tables", "The writer", "The poller", "Run it", "It empties itself"], OUTBOX),
        "From Debezium's outbox": RECIPES + "test_debeziums_outbox_is_routed_in_order",
    },
    "docs/recipes/queues.md": {
        "The table and the source": BROKER,
        "Storage Queue": TO + "test_messages_trigger_a_function_that_counts_once",
        "Service Bus": BROKER,
        "Event Hubs": BROKER,
        "Run it": BROKER,
    },
    "docs/recipes/sql-database.md": {
        "The files": COPY,
        "Run it": COPY,
        "A read model": RECIPES + "test_a_read_model_follows_both_tables",
    },
}
"""Pages of which a test follows these sections, and runs every block of them."""

RUN_BY: dict[str, list[str]] = {
    "README.md": [
        DOCS + "test_the_readmes_example_delivers_in_an_empty_folder",
        "tests/repo/packaging/test_make.py::test_make_demo_runs_the_command_that_the_demos_test_drives",
    ],
    "benchmarks/README.md": [],
    "docs/inside/architecture.md": [DRAWING, DRAWING, DRAWING],
    "docs/azure-functions.md": [
        TIMERS,
        TIMERS,
        QUEUE_MODE,
        QUEUE_MODE,
        DOCS + "test_the_pipelines_line_as_shown_ends_with_what_is_wrong",
    ],
    "docs/configuration.md": [
        ACCEPTED,
        DOCS + "test_templates_and_included_files_work_as_shown",
        DOCS + "test_templates_and_included_files_work_as_shown",
        DOCS + "test_templates_and_included_files_work_as_shown",
    ],
    "docs/containers.md": [
        "tests/repo/docs/test_containers.py::test_the_probe_as_shown_tells_young_from_old",
        "tests/repo/docs/test_containers.py::test_the_manifest_probes_with_that_command",
        "not run: there is no Windows",
        "tests/repo/docs/test_scale.py::test_the_arithmetic_prints_what_is_shown",
        "tests/repo/docs/test_scale.py::test_the_arithmetic_prints_what_is_shown",
        NO_CLOUD + "test_the_session_with_azd_sets_what_the_template_reads",
        NO_CLOUD + "test_the_deployment_of_container_apps_names_its_parameters",
        NO_CLOUD + "test_the_deployment_of_container_apps_names_its_parameters",
        NO_CLOUD + "test_the_session_with_kubectl_makes_the_secret_that_pods_read",
        NO_CLOUD + "test_the_session_with_systemd_installs_what_the_unit_names",
        NO_CLOUD + "test_the_extras_shown_are_the_packages",
    ],
    "docs/inside/dependencies.md": [],
    "docs/handlers.md": [
        *[RECIPES + "test_the_tests_of_a_handler_pass"] * 3,
        ONCE + "test_the_example_prints_what_the_page_says",
        ONCE + "test_an_older_version_changes_nothing",
        ONCE + "test_an_older_version_changes_nothing",
        ONCE + "test_a_service_gets_one_key_for_each_version_of_a_row",
        NO_CLIENT,
    ],
    "docs/failures.md": [
        "tests/repo/docs/test_failures.py::test_the_picture_shows_the_calls_that_are_made",
        "tests/repo/docs/test_failures.py::test_what_a_handler_says_means_what_the_table_says",
    ],
    "docs/health.md": [
        "tests/repo/docs/test_health.py::test_the_session_prints_what_is_shown",
        "tests/repo/docs/test_monitoring.py::test_a_handlers_module_as_shown_exports_what_the_page_lists",
        "tests/repo/docs/test_dashboard.py::test_the_session_prints_what_is_shown",
        "tests/repo/docs/test_dashboard.py::test_the_session_prints_what_is_shown",
    ],
    "docs/getting-started.md": [
        "tests/repo/docs/test_stopwatch.py::test_all_commands_work_in_an_empty_folder",
        "tests/repo/docs/test_stopwatch.py::test_they_deliver_it_from_postgresql_with_azurite",
        "tests/repo/packaging/test_wheel.py::test_the_wheel_installs_two_packages_and_a_working_command",
        FIRST,
        FIRST,
        FIRST,
        FIRST,
        DOCS + "test_every_extra_named_is_one_of_the_package",
        "not run: npm would set up this machine; `make tools` sets up the same Azurite, with which SECOND is run",
        SECOND,
        SECOND,
        SECOND,
        SECOND,
        TIMERS,
    ],
    "docs/concepts.md": [DRAWING],
    "docs/inside/guarantees.md": [],
    "docs/recipes/index.md": [],
    "docs/http.md": [
        *[HTTP + "test_a_session_beside_poller_run_prints_what_is_shown"] * 4,
        HTTP + "test_a_program_serves_as_shown",
        TIMERS,
        TIMERS,
        *[HTTP + "test_a_session_beside_poller_run_prints_what_is_shown"] * 4,
        HTTP + "test_the_line_for_cron_says_what_is_wrong",
        HTTP + "test_the_scalers_address_and_place_exist",
    ],
    "docs/performance.md": [],
    "docs/inside/proofs.md": [],
    "docs/python.md": [
        DOCS + "test_pollers_run_in_a_process_of_ones_own_as_shown",
        DOCS + "test_a_program_looks_at_pollers_as_shown",
        DOCS + "test_a_checkpoint_is_kept_and_gone_back_to_as_shown",
        DOCS + "test_rows_that_wait_are_listed_and_given_up_as_shown",
        DOCS + "test_a_range_is_delivered_again_as_shown",
        DOCS + "test_batches_come_as_tables_as_shown",
        DOCS + "test_changes_reach_a_handler_as_shown",
        *["tests/repo/docs/test_stores.py::test_a_store_of_ones_own_keeps_the_laws_as_shown"] * 2,
    ],
    "docs/relays.md": [
        *[RELAYS + "test_the_configuration_and_the_program_print_one_line"] * 2,
        RELAYS + "test_the_page_lands_a_file_of_parquet",
        RELAYS + "test_the_page_sends_over_amqp",
        RELAYS + "test_the_page_sends_a_message",
        RELAYS + "test_the_page_sends_over_amqp",
        *[RELAYS + "test_each_relay_is_configured_as_shown"] * 2,
        "tests/integration/relays/test_http.py::test_the_pages_answer_names_an_event",
        RELAYS + "test_each_relay_is_configured_as_shown",
    ],
    "docs/recipes/prune.md": ["tests/cli/test_prune.py::test_the_pages_outbox_empties_itself_as_shown"] * 2,
    "docs/capture.md": [
        "tests/cli/test_capture.py::test_printed_installed_verified_and_removed",
        "tests/repo/docs/test_capture.py::test_the_copy_of_the_page_is_the_table",
        "tests/repo/docs/test_capture.py::test_the_copy_of_the_page_is_the_table",
    ],
    "docs/inside/rules.md": [DOCS + "test_the_fingerprints_test_vector_is_what_is_computed"],
    "docs/security.md": [
        "tests/repo/docs/test_security.py::test_the_pages_roles_suffice_and_the_source_is_only_read",
        "tests/repo/docs/test_security.py::test_the_pages_roles_suffice_and_the_source_is_only_read",
        "tests/repo/docs/test_security.py::test_the_identities_as_shown_may_be_sent_tokens",
        NO_AZURE,
        NO_AZURE,
        NO_AZURE,
        "not run: there is no Docker engine; test_security.py looks at the image's user and at what a run writes",
    ],
    "docs/sources.md": [ACCEPTED],
    "docs/stores.md": [
        *[ACCEPTED] * 3,
    ],
    "examples/functions/README.md": [
        "not run: `func` is no Python package; test_wheel.py installs the wheel, test_example.py fires the timer",
        DOCS + "test_the_function_examples_readme_names_its_settings",
        "not run: `az` changes a subscription; the settings' names are held by the test above",
    ],
    "examples/quickstart/README.md": [
        "tests/cli/test_quickstart.py::test_each_order_is_printed_once",
        DOCS + "test_the_demos_flights_are_what_the_program_makes",
    ],
    "examples/stores/README.md": [
        EXAMPLES + "folder",
        *[EXAMPLES + "test_without_a_server_the_example_runs_as_printed"] * 2,
        EXAMPLES + "test_on_azurite_the_example_runs_as_printed",
        EXAMPLES + "test_on_moto_the_example_runs_as_printed",
        EXAMPLES + "test_on_cosmosdb_server_the_example_runs_as_printed",
    ],
    "proof/README.md": ["not run: a session by hand; tests/resilience/proof/spin.py starts the same programs"],
}
"""Who runs each block of a page, in order."""


@each("page", sorted(RUN_BY))
def test_each_block_is_run_or_says_why_not(page: str) -> None:
    shown, commands = blocks(page), RUN_BY[page]

    assert len(shown) == len(commands), [block.where for block in shown]
    missing = [
        name for name in [*commands, *EVERY_ONE.values()] if not name.startswith("not run: ") and not exists(name)
    ]
    assert missing == []


@each("page", sorted(SECTIONS))
def test_each_section_with_a_block_is_followed(page: str) -> None:
    followed = {block for section in SECTIONS[page] for block in parts(page, section)}
    assert [block.where for block in blocks(page) if block not in followed] == []
    assert [test for test in SECTIONS[page].values() if not exists(test)] == []


def test_every_page_is_listed() -> None:
    readmes = [str(path.relative_to(ROOT)) for path in ROOT.glob("[a-z]*/README.md")]
    nested = [str(path.relative_to(ROOT)) for path in ROOT.glob("examples/*/README.md")]
    assert sorted({*pages(), *readmes, *nested}) == sorted({*RUN_BY, *EVERY_ONE, *SECTIONS})


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return (ROOT / file).is_file() and f"def {name}(" in (ROOT / file).read_text()
