# Runs one of Eclipse Paho's interoperability suites (`client_test`, `client_test5`) against a broker and prints its
# failed tests: `suite.py FOLDER NAME PORT`. The caller decides which failures are known. Output of the suite goes to
# stderr.

import contextlib
import importlib
import json
import logging
import sys
import unittest

folder, name, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder)
sys.argv = [name]
with contextlib.redirect_stdout(sys.stderr):
    suite = importlib.import_module(name)
    prefix = "client_test5/" if name == "client_test5" else ""
    # Variables that the suite sets when run as a program.
    suite.host, suite.port, suite.topic_prefix = "127.0.0.1", port, prefix
    suite.topics = [prefix + topic for topic in ["TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA"]]
    wild = ["TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#"]
    suite.wildtopics = [prefix + topic for topic in wild]
    suite.nosubscribe_topics = ("test/nosubscribe",)
    logging.getLogger().setLevel(logging.ERROR)
    tests = unittest.defaultTestLoader.loadTestsFromModule(suite)
    result = unittest.TextTestRunner(sys.stderr, verbosity=2).run(tests)
failed = sorted(test.id().rsplit(".", 1)[1] for test, _ in result.errors + result.failures)
print(json.dumps({"run": result.testsRun, "failed": failed}))
