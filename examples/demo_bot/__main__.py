from fencepost import Run, Worker

worker = Worker.from_environment(queues=["reviews"], service_name="demo-bot")


@worker.handle
async def review(run: Run) -> None:
    pull = run.json()["pull_request"]
    if not run.analysis_done:  # else an earlier attempt got this far, and its remarks are back
        await run.checkpoint("analyse")
        run.state["remarks"] = [
            f"{pull['changed_files']} files, +{pull['additions']} -{pull['deletions']}.",
            "It has a description." if pull["body"] else "It has no description: please add one.",
        ]
        await run.checkpoint("publish", analysis_done=True)
    await run.checkpoint(final=True)
    await run.publish_review("\n".join(run.state["remarks"]))


if __name__ == "__main__":
    worker.main()
