// SPDX-License-Identifier: GPL-3.0-or-later
// The report's modules, of this process, compared with the kernel's and the dynamic linker's word.
#include "../src/session/report_modules.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "elf_support.hpp"

namespace memleax {
namespace {

class ReportModules : public testing::Test {
  protected:
    test::OwnMemory memory;
    ModuleMap map{test::own_pid(), memory};

    std::vector<Report::Module> make() {
        EXPECT_TRUE(map.refresh());
        return report_modules({map.all().begin(), map.all().end()}, map.main());
    }
};

TEST_F(ReportModules, BeginWhereTheKernelSays) {
    const auto modules = make();
    const auto maps = read_maps(test::own_pid());
    ASSERT_TRUE(maps);
    EXPECT_EQ(modules.size(), map.all().size());
    for (const Report::Module& module : modules) {
        const auto mapping = std::find_if(maps->begin(), maps->end(), [&](const Mapping& each) {
            return each.range.begin == module.range.begin;
        });
        ASSERT_NE(mapping, maps->end()) << module.path;
        EXPECT_EQ(mapping->path, module.path);
        EXPECT_TRUE(mapping->executable);
        EXPECT_EQ(mapping->offset.value(), module.file_offset) << module.path;
    }
}

TEST_F(ReportModules, TheProgramIsFirst) {
    const auto modules = make();
    ASSERT_GT(modules.size(), 3U);
    EXPECT_EQ(modules[0].path, map.main()->path);
    // The others keep their order.
    std::vector<std::string> others;
    for (const auto& module : map.all()) {
        if (module.get() != map.main()) {
            others.push_back(module->path);
        }
    }
    for (std::size_t i = 0; i < others.size(); ++i) {
        EXPECT_EQ(modules[i + 1].path, others[i]);
    }
    EXPECT_TRUE(map.refresh());
    EXPECT_EQ(report_modules({map.all().begin(), map.all().end()}, nullptr).size(), modules.size());
}

TEST_F(ReportModules, BuildIds) {
    for (const Report::Module& module : make()) {
        if (module.path != "[vdso]") {
            EXPECT_EQ(module.build_id, (*ElfImage::open(module.path))->build_id()) << module.path;
        }
    }
    EXPECT_EQ(make()[0].build_id.size(), 40U);
}

TEST_F(ReportModules, FilesThatCouldNotBeRead) {
    auto module = std::make_shared<Module>();
    module->path = "/gone";
    module->load_bias = 0x10000 - 0x3000; // as find_load_bias makes it of an offset of 0x3000
    module->executable = {{0x10000, 0x12000}, {0x14000, 0x15000}};
    auto empty = std::make_shared<Module>();
    const auto modules = report_modules({empty, module}, module.get());
    ASSERT_EQ(modules.size(), 1U);
    EXPECT_EQ(modules[0].path, "/gone");
    EXPECT_EQ(modules[0].build_id, "");
    EXPECT_EQ(modules[0].range, (AddrRange{0x10000, 0x15000}));
    EXPECT_EQ(modules[0].file_offset, 0x3000U);
}

} // namespace
} // namespace memleax
